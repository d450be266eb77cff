"""What a reader must know before the figures: each oddity of the runs in one sentence, with what it means."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from looplab.experiments.loop.readiness import REMOTE
from looplab.experiments.loop.report import cells_of
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import FEWEST_REPETITIONS
from looplab.report.stored import StoredRun
from looplab.run import quiet
from looplab.treatments.link import NO_LINK

# The schedule is disturbed where the sender is later than this share of the interval.
LATE_SHARE = 0.05
# Runnable processes for each core before the run; above it something else was at work.
BUSY_BEFORE = 0.5
PUBLISHED_REPETITIONS = 10
# Where an oddity is, "" for the whole run; its kind; a sentence.
Oddity = tuple[str, str, str]


def notes(measured: Sequence[MeasuredRuns]) -> list[str]:
    """Return every oddity of the runs that the report is about; what several have in common is said once."""
    return [*_between(measured), *_said_once(measured, _of_runs)]


def setup(measured: Sequence[MeasuredRuns]) -> list[str]:
    """Return what the set-ups of these runs cannot show, each sentence with the runs it is about."""
    return _said_once(measured, lambda m: (("", sentence) for sentence in (*_network(m.run), *_counted_load(m.run))))


def _said_once(
    measured: Sequence[MeasuredRuns], sentences: Callable[[MeasuredRuns], Iterable[tuple[str, str]]]
) -> list[str]:
    runs: dict[str, list[str]] = {}
    for m in measured:
        for where, sentence in sentences(m):
            runs.setdefault(sentence, []).append(f"{m}{where}")
    return [
        f"{', '.join(names)}: {sentence}" if len(names) < len(measured) or len(names) == 1 else sentence
        for sentence, names in runs.items()
    ]


def _network(run: StoredRun) -> Iterator[str]:
    """Yield what the network between controller and bridge was."""
    link, robot = run.parameters.get("link", NO_LINK), run.parameters.get("robot")
    if robot == REMOTE:
        yield (
            "Bridge and robot were on a machine of their own: O has the real network between the two machines in it, "
            "and this machine's load did not reach them."
        )
        return
    if link == NO_LINK:
        yield (
            "Everything was on one machine and one network bridge: O has no wireless link and no second machine in it. "
            "The thesis does not describe how its Pi was connected."
        )
    elif link == "wifi":
        yield "O has a model of a wireless link in it, on one machine, and no measurement of a link."
    else:
        yield f"O has the emulated link “{link}” in it, on one machine; the thesis does not describe its own."
    yield (
        "The bridge shared the processors with the load, as a virtual robot does. “Robot untouched by the load” shows "
        "whether that added to O and R; where it did, verdicts about them are undecided."
    )
    yield (
        "The kernel delivers the bridge's answer within the bridge's own call of send, at its priority: its way to the "
        "broker's socket does not meet the load. On a machine of its own the network's interrupt delivers it."
    )


def _counted_load(run: StoredRun) -> Iterator[str]:
    """Yield whose load the broker counted, its rate, how long a cell was, and which broker it was."""
    load, environment = str(run.parameters.get("load", "")), run.document["environment"]
    doses = [cell.get("load") or {} for cell in run.document["cells"]]
    per_s = [dose[f"{load}_messages_per_s"] for dose in doses if f"{load}_messages_per_s" in dose]
    if per_s:
        image = environment.get("images", {}).get(load, {}).get("reference", "an image that was not recorded")
        broker = f"{run.parameters.get('broker', '')} {environment.get('versions', {}).get('broker', '')}".strip()
        yield (
            f"The {load} of {image} sent {min(per_s):.0f} to {max(per_s):.0f} messages a second in cells of "
            f"{median(dose['seconds'] for dose in doses):.1f} s, through {broker or 'a broker without a version'}."
        )


def _between(measured: Sequence[MeasuredRuns]) -> Iterator[str]:
    runs = [m.run for m in measured]
    machines = [run.machine_text for at, run in enumerate(runs) if not any(map(run.same_machine, runs[:at]))]
    if len(machines) > 1:
        names = "; ".join(sorted(machines))
        yield f"These runs are of {len(machines)} machines ({names}): latencies of different machines are not compared."
    revisions = {m.run.code for m in measured}
    if len(revisions) > 1:
        yield f"These runs were made by {len(revisions)} different states of the lab (see “revision” of each run)."


def _of_runs(m: MeasuredRuns) -> Iterator[tuple[str, str]]:
    """Yield where the oddities of a scenario's runs are, and the newest run's words for each."""
    if not m.run.valid:
        yield "", f"INVALID: {m.run.invalid_because or 'no reason is given'}. Its figures are shown and prove nothing."
    by_kind: dict[tuple[str, str], list[str]] = {}
    for one in m.runs:
        for where, kind, sentence in (*_of_run(one), *_of_cells(one)):
            by_kind.setdefault((where, kind), []).append(sentence)
    for (where, _), sentences in by_kind.items():
        yield where + (f" ({len(sentences)} of {len(m.runs)} runs)" if len(m.runs) > 1 else ""), sentences[-1]


def _of_run(m: MeasuredRuns) -> Iterator[Oddity]:
    run = m.run
    if run.repetitions < PUBLISHED_REPETITIONS:
        means = "too few for intervals" if run.repetitions < FEWEST_REPETITIONS else "intervals are wider"
        yield "", "few", f"{run.repetitions} repetitions instead of the thesis's {PUBLISHED_REPETITIONS}: {means}."
    load = run.document["environment"].get("load_before")
    if load and (a_core := float(load[0]) / run.machine[1]) > BUSY_BEFORE:
        yield "", "busy", f"the machine was busy before the run: {a_core:.1f} processes waited for each core."
    late = [(p99 / cell.interval_ms, p99) for cell in cells_of(m).values() if (p99 := cell.figure("send_lateness.p99"))]
    share_us, p99_us = max(late, default=(0.0, 0.0))
    if share_us > LATE_SHARE * 1000:
        yield (
            "",
            "late",
            f"the schedule itself was disturbed: in the worst cell one request in a hundred left {p99_us / 1000:.1f} "
            "ms late or later. Lateness is not part of T; “The runs” shows that of each cell.",
        )
    for key in ("malformed", "foreign"):
        if run.document.get(key):
            yield "", key, f"{run.document[key]} {key} messages arrived on the lab's topics and were ignored."
    if why := quiet.why_not(run.document):
        yield "", "disturbed", f"the run was not quiet: {why}."
    untouched = run.treatment("robot untouched by the load")
    if untouched is not None and not untouched["verified"]:
        short = f"bridge and robot were short of processor time ({untouched['found']})."
        yield "", "touched", f"{short} What depends on O or R being the loop's alone is undecided."
    if gone := _went_offline(run):
        yield "", "offline", f"{', '.join(gone)} went offline during the run."


def _of_cells(m: MeasuredRuns) -> Iterator[Oddity]:
    for cell in cells_of(m).values():
        where = f", {cell}"
        if cell.measured == 0:
            yield where, "silent", f"none of {cell.sent} messages was answered; there is no latency to show."
        elif cell.repetitions < m.run.repetitions:
            silent = m.run.repetitions - cell.repetitions
            yield where, "silent", f"{silent} of {m.run.repetitions} repetitions had no answer at all."
        if why := quiet.why_late(cell.document):
            yield where, f"late by {cell.late_because}", why
        if why := quiet.why_slow(cell.document):
            yield where, f"slow by {cell.slow_because}", why


def _went_offline(run: StoredRun) -> list[str]:
    """Return the parts that were online and then were not; a part that comes online late is none of these."""
    online: set[str] = set()
    gone: dict[str, None] = {}
    for event in run.document.get("events", []):
        if event["status"] == "online":
            online.add(event["topic"])
        elif event["topic"] in online:
            gone[event["topic"]] = None
    return list(gone)
