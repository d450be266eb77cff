"""What a reader must know before the figures: each oddity of the runs in one sentence, with what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from looplab.experiments.loop.report.claims import Measured
from looplab.report.statistics import FEWEST_REPETITIONS
from looplab.report.stored import StoredRun

# The schedule is disturbed where the sender is later than this share of the interval.
LATE_SHARE = 0.05
# Runnable processes for each core before the run; above it something else was at work.
BUSY_BEFORE = 0.5
PUBLISHED_REPETITIONS = 10

EMULATION = (
    "Everything is on one machine and one network bridge: O has no wireless link in it, the published O had.",
    "The robot's USB frames and the time its sensor takes are constants, set once so that scenario 1's mean R is the "
    "published one. R is therefore no finding.",
    "Bridge and robot share the processors with the load. Whether the load reached them, each run says under "
    "“apart from the load”.",
    "The published minima, maxima and averages come without their spread. A difference is measured minus published, "
    "its interval is that of the measurement alone.",
)

METHOD = (
    "Messages of one repetition are correlated. What counts is therefore the repetition, and a cell of one or two "
    "repetitions has no interval.",
    "Intervals hold the true value 95 times in 100. Those of means and differences are Student's t over repetitions "
    "(Welch's for two sides), on the scale of the logarithm. Those of p50, p95 and p99 are Woodruff's: how far the "
    "share of values below the quantile may be off, as repetitions differ, and which values stand at its two ends.",
    "Tried on simulated latencies with 10 repetitions of 100 messages, 93 to 96 in 100 held the truth; 87 for the mean "
    "of a tail so long that a single message moves it. With fewer than some 500 messages p99 has no upper end.",
    "A verdict stands on the mean of O, as the thesis does. It needs two things that agree: the interval of the "
    "difference, and a permutation test of whole repetitions within their cell (studentised, two-sided, 5 %).",
    "Where there is no difference, it calls one in 4 or 5 cases of 100. A shift of one standard deviation of a "
    "repetition is found in 9 of 10 cases from some 24 repetitions a side on (all cells together), of 1.5 with 10.",
    "A claim that something is higher or lower is reproduced where the interval lies on its side, not reproduced where "
    "it lies on the other side or below 10 %, undecided between. “Adds nothing” is reproduced where a gain of "
    "10 % or more is ruled out.",
    "No correction is made for asking several questions: of twenty true “no difference” one may well look like one.",
)


def notes(measured: Sequence[Measured]) -> list[str]:
    """Every oddity of the runs that the report is about; what several have in common is said once."""
    found = [*_between(measured), *_common(measured)]
    for m in measured:
        found += _of_run(m)
    return found


def _name(m: Measured) -> str:
    return f"{m.run.scenario} ({m.run.fidelity})"


def _between(measured: Sequence[Measured]) -> Iterator[str]:
    machines = {m.run.machine for m in measured}
    if len(machines) > 1:
        said = "; ".join(sorted(f"{cpu}, {cores} cores, kernel {kernel}" for cpu, cores, kernel in machines))
        yield f"These runs are of {len(machines)} machines ({said}): latencies of different machines are not compared."
    revisions = {str(m.run.document["environment"].get("revision")) for m in measured}
    if len(revisions) > 1:
        yield f"These runs were made by {len(revisions)} different states of the lab (see “revision” of each run)."


def _common(measured: Sequence[Measured]) -> Iterator[str]:
    few = {_name(m): f"{m.run.repetitions}" for m in measured if m.run.repetitions < FEWEST_REPETITIONS}
    if few:
        yield f"Too few repetitions for intervals (the thesis had {PUBLISHED_REPETITIONS}): {_listed(few, measured)}."
    wide = {
        _name(m): f"{m.run.repetitions}"
        for m in measured
        if FEWEST_REPETITIONS <= m.run.repetitions < PUBLISHED_REPETITIONS
    }
    if wide:
        yield (
            f"Fewer repetitions than the thesis's {PUBLISHED_REPETITIONS}, so wider intervals: "
            f"{_listed(wide, measured)}."
        )
    busy = {
        _name(m): f"{load:.1f}" for m in measured if (load := _load_a_core(m.run)) is not None and load > BUSY_BEFORE
    }
    if busy:
        yield f"The machine was busy before the run (processes waiting, for each core): {_listed(busy, measured)}."
    late = {_name(m): f"{worst:.1f} ms" for m in measured if (worst := _worst_lateness_ms(m)) is not None}
    if late:
        yield (
            "The schedule itself was disturbed: in the worst cell one request in a hundred left late by "
            f"{_listed(late, measured)} or more. Lateness is not part of T; each cell's stands under “The runs”."
        )


def _listed(values: Mapping[str, str], measured: Sequence[Measured]) -> str:
    """Each value with the runs that have it."""
    runs: dict[str, list[str]] = {}
    for name, value in values.items():
        runs.setdefault(value, []).append(name)
    if len(runs) == 1 and len(values) == len(measured) > 1:
        return f"{next(iter(runs))} in all of them"
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in runs.items())


def _worst_lateness_ms(m: Measured) -> float | None:
    """p99 of lateness in the cell where it is the largest share of the interval; None where none disturbs."""
    late = [
        (p99 / (cell.interval_ms * 1000), p99 / 1000)
        for cell in m.cells.values()
        if (p99 := cell.lateness_p99_us) is not None and p99 > LATE_SHARE * cell.interval_ms * 1000
    ]
    return max(late)[1] if late else None


def _of_run(m: Measured) -> Iterator[str]:
    run, name = m.run, _name(m)
    if not run.valid:
        why = "; ".join(map(str, run.document["invalid_because"])) or "no reason is given"
        yield f"{name} is INVALID: {why}. Its figures are shown and prove nothing."
    for cell in m.cells.values():
        where = f"{cell.interval_ms:g} ms, QoS {cell.qos}"
        if cell.measured == 0:
            yield f"{name}, {where}: none of {cell.sent} messages was answered; there is no latency to show."
        elif cell.repetitions < run.repetitions:
            silent = run.repetitions - cell.repetitions
            yield f"{name}, {where}: {silent} of {run.repetitions} repetitions had no answer at all."
    for key in ("malformed", "foreign"):
        if run.document.get(key):
            yield f"{name}: {run.document[key]} {key} messages arrived on the lab's topics and were ignored."
    gone = _went_offline(run)
    if gone:
        yield f"{name}: {', '.join(gone)} went offline during the run."


def _load_a_core(run: StoredRun) -> float | None:
    load, cores = run.document["environment"].get("load_before"), run.document["environment"].get("cores")
    if not (isinstance(load, list) and load and isinstance(load[0], int | float) and isinstance(cores, int) and cores):
        return None
    return float(load[0]) / cores


def _went_offline(run: StoredRun) -> list[str]:
    """Who was online and then was not; a part that comes online late is none of these."""
    online: set[str] = set()
    gone: list[str] = []
    events = run.document.get("events")
    for event in events if isinstance(events, list) else []:
        if not isinstance(event, dict):
            continue
        topic = str(event.get("topic"))
        if event.get("status") == "online":
            online.add(topic)
        elif topic in online and topic not in gone:
            gone.append(topic)
    return gone
