"""From what each repetition measured to run.json and the CSV files: every request has exactly one fate."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.run.cells import CellResult
from looplab.run.document import with_figures
from looplab.run.record import File
from looplab.system.histogram import Histogram, merged
from looplab.treatments.judgement import Treatment
from looplab.treatments.scans import Scan, processes

KEYS = tuple(key.name for key in LoadCell.key_columns())
FATES = tuple(LoadCell.outcomes())
# The times of one request: since it was due, since it was sent, inside the middleware; how late the device sent it.
TIMES = ("response", "sent_response", "server", "send_lateness")
STORED_TIMES = TIMES[:3]
# Above this share of a processor, the devices themselves may limit the load.
SATURATED = 0.9
# Devices that begin at random do so within half a period by chance, unless there are at least this many.
FEWEST_DEVICES = 10
# The warm-up was too short if a request at its end costs more than this many times what it costs in the load.
COLD = 1.5


@dataclass(frozen=True)
class Second:
    """One second of a repetition: how many requests were due, left, and ended, by fate."""

    second: int
    due: int = 0
    sent: int = 0
    succeeded: int = 0
    failed: int = 0
    unfinished: int = 0
    response_p50_us: float | None = None
    response_p99_us: float | None = None
    cpu_us: int | None = None


@dataclass(frozen=True)
class ReadBack:
    """How many posted messages the database held after a repetition: once, not at all, or more than once."""

    posted: int
    stored: int
    lost: int
    duplicates: int


@dataclass(kw_only=True)
class Trial(CellResult[LoadCell]):
    """One repetition of a cell: the middleware started once, warmed up, and loaded; a row for each of its seconds.

    `processed` are the requests that succeeded before the load ended, as the paper counts them.
    `histograms` are by TIMES; `failed_by` counts the failed requests by cause. Processor seconds and memory are by
    service, `under_test` names those of the middleware, which `wanted_processors` are for; `affinity` is by service.
    Its devices were to begin `together`, or spread over a period, of which their first requests took `start_share`.
    Before the load the nodes had `asked` requests alone, or a `warm_up` of its own; of that, `backlog` requests had
    not ended when the load began.
    `processor_share` is the load of the busiest processor of the devices, from 0 to 1, `load_memory_bytes` their
    memory. `dead` names services that ended during the repetition. Without `started` the middleware never got ready.
    """

    repetition: int
    started: bool = True
    together: bool = False
    start_share: float = 0.0
    asked: int = 0
    warm_up: Sequence[Second] = ()
    backlog: int = 0
    loaded: Sequence[Second] = ()
    processed: int = 0
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    failed_by: Mapping[str, int] = field(default_factory=dict)
    read_back: ReadBack | None = None
    under_test: Sequence[str] = ()
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    memory_start_bytes: Mapping[str, int] = field(default_factory=dict)
    memory_end_bytes: Mapping[str, int] = field(default_factory=dict)
    wanted_processors: Sequence[int] = ()
    affinity: Mapping[str, Sequence[int]] = field(default_factory=dict)
    shared: bool = False
    processor_share: float | None = None
    load_memory_bytes: int | None = None
    drops: int = 0
    dead: Sequence[str] = ()
    out_of_memory: bool = False

    @property
    def seconds(self) -> int:
        return len(self.loaded)

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
        """Whether requests still became cheaper when the load began."""
        last, loaded_s = (_warm_up(self.warm_up) or {}).get("cpu_us_per_request_last"), _per_request([self])
        return last is not None and loaded_s is not None and last > COLD * loaded_s * 1e6

    @property
    def misplaced(self) -> list[str]:
        """The services of the middleware that ran on other processors than wanted; one that has ended runs on none."""
        wanted = sorted(self.wanted_processors)
        used = {name: sorted(self.affinity.get(name, ())) for name in self.under_test}
        return [name for name, processors in used.items() if processors and processors != wanted]


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
        "seconds": trial.seconds,
        **_measured([trial]),
        **{name: getattr(trial, name) for name in ("processor_share", "load_memory_bytes", "drops")},
        "cpu_s": {name: round(used_s, 3) for name, used_s in trial.cpu_s.items()},
        "memory_start_bytes": dict(trial.memory_start_bytes),
        "memory_end_bytes": dict(trial.memory_end_bytes),
        "warm_up": _warm_up(trial.warm_up),
        "warm_up_requests": trial.asked or None,
        "backlog": trial.backlog,
        "dead": list(trial.dead),
        "invalid_because": trial.invalid_because,
    }


def _measured(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what run.json holds both of one repetition and of all repetitions of a cell."""
    read_back = [asdict(trial.read_back) for trial in trials if trial.read_back]
    stored = [one.name for one in fields(ReadBack)]
    counts = {name: sum(trial.counts[name] for trial in trials) for name in trials[0].counts}
    # A request without a good answer counts as an infinite response time.
    endless = {"response": counts["failed"] + counts["unfinished"]}
    times = merged_times(trials)
    return {
        **counts,
        "processed": sum(trial.processed for trial in trials),
        "failed_by": dict(sum((Counter(trial.failed_by) for trial in trials), Counter())),
        # The sums are null if one repetition was not read back.
        **{name: sum(r[name] for r in read_back) if len(read_back) == len(trials) else None for name in stored},
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
    """Judge what every repetition must have had: its processors, devices that are no limit, a count of the database."""
    if not trials:
        return []
    # A middleware that lacked the memory to start was never loaded.
    loaded = [trial for trial in trials if trial.started]
    return [
        *_processors(trials),
        _devices_processor(loaded),
        *(_published_warm_up(loaded) or _warm_up_load(loaded)),
        *_start(loaded),
        _database(loaded),
    ]


def _processors(trials: Sequence[Trial]) -> list[Treatment]:
    misplaced = ", ".join(sorted({name for trial in trials for name in trial.misplaced}))
    shared, own, apart = any(trial.shared for trial in trials), "those of the cell", "apart from the middleware"
    few = "this machine has too few processors" if shared else ""
    found = "shared with the middleware" if shared else apart
    return [
        Treatment("processors of the middleware", own, f"others: {misplaced}" if misplaced else own, not misplaced),
        Treatment("processors of devices and data", apart, found, not shared, required=False, note=few),
    ]


def _devices_processor(loaded: Sequence[Trial]) -> Treatment:
    """Judge whether the devices may have been the limit; what nobody counted is not verified."""
    wanted, shares = f"at most {SATURATED:.0%} busy", [trial.processor_share for trial in loaded]
    known = [share for share in shares if share is not None]
    if known:
        return Treatment("devices' processor", wanted, f"{max(known):.0%} at most", max(known) <= SATURATED)
    return Treatment("devices' processor", wanted, "unknown" if loaded else "no repetition was loaded", not loaded)


def _database(loaded: Sequence[Trial]) -> Treatment:
    read = sum(trial.read_back is not None for trial in loaded)
    found = f"{read} of {len(loaded)} repetitions"
    return Treatment("database read back", "every repetition", found, read == len(loaded))


def _start(loaded: Sequence[Trial]) -> list[Treatment]:
    """Judge whether devices began as wanted: within half a period, or not."""
    shares = [trial.start_share for trial in loaded if trial.cell.devices >= FEWEST_DEVICES]
    if not shares:
        return []
    together = loaded[0].together
    share = f"first requests within {min(shares):.0%} to {max(shares):.0%} of a period"
    good = max(shares) <= 0.5 if together else min(shares) > 0.5
    return [Treatment("start of the devices", "together" if together else "spread", share, good, required=False)]


def _published_warm_up(loaded: Sequence[Trial]) -> list[Treatment]:
    """Judge the requests that warmed up each node; return [] if a load did."""
    asked = sorted({trial.asked // trial.cell.nodes for trial in loaded if trial.asked})
    found = f"{' and '.join(map(str, asked))} requests to each node"
    return [Treatment("warm-up", "3 requests to each node", found, asked == [3])] if asked else []


def _warm_up_load(loaded: Sequence[Trial]) -> list[Treatment]:
    """Judge whether a warm-up had its effect, and had ended, before the load."""

    def judged(what: str, wanted: str, not_so: str, count: int, note: str) -> Treatment:
        found = f"{not_so} in {count} of {len(loaded)} repetitions" if count else wanted
        return Treatment(what, wanted, found, not count, required=False, note=note if count else "")

    cold, late = sum(trial.cold for trial in loaded), sum(trial.backlog > 0 for trial in loaded)
    return [
        judged("warm-up", "ended before the load", "not ended", cold, "raise WARM_UP_S"),
        judged("queue when the load began", "empty", "not empty", late, ""),
    ]


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
        file("samples.csv", [one.name for one in fields(Second)], lambda trial: map(astuple, trial.loaded)),
        file("histograms.csv", ["time", "upper_ns", "count"], _buckets),
    ]


def _buckets(trial: Trial) -> Iterator[Sequence[object]]:
    """Yield a row for each bucket of a repetition's histograms that is not empty."""
    for name in STORED_TIMES:
        if name in trial.histograms:
            yield from ((name, upper, count) for upper, count in sorted(trial.histograms[name].counts.items()))


def _warm_up(seconds: Sequence[Second]) -> dict[str, Any] | None:
    """Return how a repetition warmed up: processor time a request in the first and in the last third, in us."""
    if not seconds:
        return None
    third = max(1, len(seconds) // 3)
    return {
        "seconds": len(seconds),
        "requests": sum(second.succeeded for second in seconds),
        "cpu_us_per_request_first": _cpu_us(seconds[:third]),
        "cpu_us_per_request_last": _cpu_us(seconds[-third:]),
    }


def _cpu_us(seconds: Sequence[Second]) -> float | None:
    used = [second.cpu_us for second in seconds if second.cpu_us is not None]
    succeeded = sum(second.succeeded for second in seconds if second.cpu_us is not None)
    return round(sum(used) / succeeded, 1) if succeeded else None


def _per_request(trials: Sequence[Trial]) -> float | None:
    """Return the middleware's processor seconds during the load for each request that it processed then."""
    used_s = sum(trial.under_test_sum(trial.cpu_s) for trial in trials)
    done = sum(trial.processed for trial in trials if trial.cpu_s)
    return round(used_s / done, 7) if done else None


def _mean(values: Sequence[float]) -> int | None:
    known = [value for value in values if value]
    return round(sum(known) / len(known)) if known else None
