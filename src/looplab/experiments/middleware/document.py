"""From what each repetition measured to run.json and the CSV files: every request has exactly one fate."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.run.cells import CellResult
from looplab.run.document import with_figures
from looplab.run.record import File
from looplab.system.histogram import Histogram, merged
from looplab.treatments.judgement import Treatment, compared
from looplab.treatments.scans import Scan, processes

KEYS = tuple(key.name for key in LoadCell.key_columns())
FATES = tuple(LoadCell.outcomes())
# The times of one request: since it was due, since it was sent, inside the middleware; how late the device sent it.
TIMES = ("response", "sent_response", "server", "send_lateness")
STORED_TIMES = TIMES[:3]
# How many posted messages the database held after a repetition: all, once, not at all, more than once.
READ_BACK = ("posted", "stored", "lost", "duplicates")
SECOND_COLUMNS = ("due", *FATES, "response_p50_us", "response_p99_us", "cpu_us")
# Above this share of a processor, the devices themselves may limit the load.
SATURATED = 0.9
# The warm-up was too short if a request at its end costs more than this many times what it costs in the load.
COLD = 1.5


@dataclass
class Second:
    """One second of a load: how many requests were due in it and ended, and the response of the successes."""

    due: int = 0
    succeeded: int = 0
    failed: int = 0
    response: Histogram = field(default_factory=Histogram)
    cpu_us: int | None = None

    @property
    def unfinished(self) -> int:
        return self.due - self.succeeded - self.failed

    def row(self) -> tuple[object, ...]:
        """Return its fields of SECOND_COLUMNS."""
        times_us = self.response.summary_us()
        fates = (getattr(self, fate) for fate in FATES)
        return (self.due, *fates, times_us["p50"], times_us["p99"], self.cpu_us)


@dataclass(kw_only=True)
class Trial(CellResult[LoadCell]):
    """One repetition of a cell: the middleware started once, warmed up, and loaded; a row for each of its seconds.

    `processed` are the requests that succeeded before the load ended, as the paper counts them.
    `histograms` are by TIMES; `failed_by` counts the failed requests by cause, `read_back` is by READ_BACK. Processor
    seconds and memory are by service, `under_test` names those of the middleware; `misplaced` ran on other processors
    than wanted. `warm_up` is a load before the load. `processor_share` is the load of the busiest processor of the
    devices, from 0 to 1. `dead` names services that ended during the repetition. Without `started` the middleware never
    got ready.
    """

    repetition: int
    started: bool = True
    warm_up: Sequence[Second] = ()
    loaded: Sequence[Second] = ()
    processed: int = 0
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    failed_by: Mapping[str, int] = field(default_factory=dict)
    read_back: Mapping[str, int] | None = None
    under_test: Sequence[str] = ()
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    memory_start_bytes: Mapping[str, int] = field(default_factory=dict)
    memory_end_bytes: Mapping[str, int] = field(default_factory=dict)
    misplaced: Sequence[str] = ()
    processor_share: float | None = None
    dead: Sequence[str] = ()
    out_of_memory: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The requests of the load and their fates, as in the table."""
        names = {"requests": "due", **{name: name for name in FATES}}
        return {name: sum(getattr(second, of) for second in self.loaded) for name, of in names.items()}

    @property
    def invalid_because(self) -> list[str]:
        """The reasons that make this repetition unusable."""
        if self.processor_share is None or self.processor_share <= SATURATED:
            return list(self.faults)
        return [f"the devices used {self.processor_share:.0%} of a processor: they may be the limit", *self.faults]

    def reasons(self) -> list[str]:
        return [f"{self.cell}, repetition {self.repetition}: {why}" for why in self.invalid_because]

    def under_test_sum(self, by_service: Mapping[str, float]) -> float:
        """Return the sum of what the middleware's services used."""
        return sum(used for name, used in by_service.items() if name in self.under_test)

    @property
    def cold(self) -> bool:
        """Whether requests still became cheaper when the load began: by the last third of the warm-up."""
        last = self.warm_up[-max(1, len(self.warm_up) // 3) :]
        last_us, loaded_s = _cpu_us_per_request(last), _per_request([self])
        return last_us is not None and loaded_s is not None and last_us > COLD * loaded_s * 1e6


def cell_document(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return one entry of `cells` in run.json from the repetitions of one cell, in any order."""
    trials = sorted(trials, key=lambda trial: trial.repetition)
    why = [f"repetition {trial.repetition}: {reason}" for trial in trials for reason in trial.invalid_because]
    document = {
        **trials[0].cell.key_document,
        **_measured(trials),
        "dead": sorted({name for trial in trials for name in trial.dead}),
        "by_repetition": [_repetition(trial) for trial in trials],
        "valid": not why,
        "invalid_because": why,
    }
    return with_figures(LoadCell, document)


def _repetition(trial: Trial) -> dict[str, Any]:
    """Return one entry of a cell's `by_repetition`."""
    return {
        "repetition": trial.repetition,
        "seconds": len(trial.loaded),
        **_measured([trial]),
        "processor_share": trial.processor_share,
        "cpu_s": {name: round(used_s, 3) for name, used_s in trial.cpu_s.items()},
        "memory_start_bytes": dict(trial.memory_start_bytes),
        "memory_end_bytes": dict(trial.memory_end_bytes),
        "dead": list(trial.dead),
        "invalid_because": trial.invalid_because,
    }


def _measured(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what run.json holds both of one repetition and of all repetitions of a cell."""
    read_back = [trial.read_back for trial in trials if trial.read_back]
    counts = {name: sum(trial.counts[name] for trial in trials) for name in trials[0].counts}
    # A request without a good answer counts as an infinite response time.
    endless = {"response": counts["failed"] + counts["unfinished"]}
    times = merged_times(trials)
    return {
        **counts,
        "processed": sum(trial.processed for trial in trials),
        "failed_by": dict(sum((Counter(trial.failed_by) for trial in trials), Counter())),
        # The sums are null if one repetition was not read back.
        **{name: sum(r[name] for r in read_back) if len(read_back) == len(trials) else None for name in READ_BACK},
        **{f"{name}_us": times[name].summary_us(endless.get(name, 0)) for name in TIMES},
        "cpu_s_per_request": _per_request(trials),
        "memory_bytes_at_start": _mean([t.under_test_sum(t.memory_start_bytes) for t in trials]),
        "memory_bytes_at_end": _mean([t.under_test_sum(t.memory_end_bytes) for t in trials]),
        "out_of_memory": any(trial.out_of_memory for trial in trials),
    }


def merged_times(trials: Sequence[Trial]) -> dict[str, Histogram]:
    """Return the histograms of all repetitions together, by TIMES."""
    return {name: merged(t.histograms[name] for t in trials if name in t.histograms) for name in TIMES}


def contents(trials: Iterable[Trial], noise_floor: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what run.json holds beside the frame: one entry a cell, in the order in which they were first measured."""
    by_key: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in trials:
        by_key.setdefault(trial.cell.key, []).append(trial)
    return {"cells": [cell_document(by_key[key]) for key in sorted(by_key)], "noise_floor": list(noise_floor)}


def live(planned: int, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what the live state holds each second: the cell of the last of `trials`, its response so far.

    `planned` is the number of requests of the whole run.
    """
    of_cell = [trial for trial in trials if trial.cell.key == trials[-1].cell.key]
    response = merged_times(of_cell)["response"]
    distribution = {"counts": response.counts, "sum_ns": response.sum_ns}
    return {"planned": planned, "cells": [cell_document(of_cell)] if of_cell else [], "response": distribution}


def restarted(before: Scan, after: Scan, data: Sequence[str]) -> list[str]:
    """Return the data services whose first process was another one at the scan before."""

    def first(scan: Scan, name: str) -> tuple[int, int] | None:
        return min(((one["started_ticks"], one["pid"]) for one in processes(scan, name)), default=None)

    return [f"{name}: started again" for name in data if first(before, name) != first(after, name)]


def judge(trials: Sequence[Trial]) -> list[Treatment]:
    """Judge what every repetition must have had: its processors, a warm-up that was enough, a count of the database."""
    if not trials:
        return []
    # A middleware that lacked the memory to start was never loaded.
    loaded = [trial for trial in trials if trial.started]
    misplaced = ", ".join(sorted({name for trial in trials for name in trial.misplaced}))
    own, every = "those of the cell", "every repetition"
    read = sum(trial.read_back is not None for trial in loaded)
    judged = [
        compared("processors of the middleware", own, f"others: {misplaced}" if misplaced else own),
        compared("database read back", every, every if read == len(loaded) else f"{read} of {len(loaded)} repetitions"),
    ]
    if any(trial.warm_up for trial in loaded):
        cold, wanted = sum(trial.cold for trial in loaded), "ended before the load"
        found = f"not ended in {cold} of {len(loaded)} repetitions" if cold else wanted
        judged.append(compared("warm-up", wanted, found, required=False, note="raise WARM_UP_S"))
    return judged


def files(_parameters: MiddlewareParameters | None, trials: Sequence[Trial] = ()) -> list[File]:
    """Return the CSV files of a run; the rows that a record asks for are numbers of repetitions in `trials`."""

    def file(name: str, header: Sequence[str], rows_of: Callable[[Trial], Iterable[Sequence[object]]]) -> File:
        def lines(_store: object, wanted: range) -> Iterator[str]:
            for trial in trials[wanted.start : wanted.stop]:
                for row in rows_of(trial):
                    values = (*map(int, trial.cell.key), trial.repetition, *row)
                    yield ",".join("" if value is None else str(value) for value in values)

        return File(name, ",".join([*KEYS, "repetition", *header]), lines)

    return [
        file("samples.csv", ["second", *SECOND_COLUMNS], _seconds),
        file("histograms.csv", ["time", "upper_ns", "count"], _buckets),
    ]


def _seconds(trial: Trial) -> Iterator[Sequence[object]]:
    return ((at, *second.row()) for at, second in enumerate(trial.loaded))


def _buckets(trial: Trial) -> Iterator[Sequence[object]]:
    """Yield a row for each bucket of a repetition's histograms that is not empty."""
    for name in STORED_TIMES:
        if name in trial.histograms:
            yield from ((name, upper, count) for upper, count in sorted(trial.histograms[name].counts.items()))


def _cpu_us_per_request(seconds: Sequence[Second]) -> float | None:
    used = [second.cpu_us for second in seconds if second.cpu_us is not None]
    succeeded = sum(second.succeeded for second in seconds if second.cpu_us is not None)
    return sum(used) / succeeded if succeeded else None


def _per_request(trials: Sequence[Trial]) -> float | None:
    """Return the middleware's processor seconds during the load for each request that it processed then."""
    used_s = sum(trial.under_test_sum(trial.cpu_s) for trial in trials)
    done = sum(trial.processed for trial in trials if trial.cpu_s)
    return round(used_s / done, 7) if done else None


def _mean(values: Sequence[float]) -> int | None:
    known = [value for value in values if value]
    return round(sum(known) / len(known)) if known else None
