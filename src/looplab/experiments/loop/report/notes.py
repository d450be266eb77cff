"""What a reader must know before the figures: each oddity of the runs in one sentence, with what it means."""

from collections.abc import Iterator, Sequence

from looplab.experiments.loop.table import doubts
from looplab.report.samples import MeasuredRuns
from looplab.report.stored import StoredRun
from looplab.run import quiet


def notes(measured: Sequence[MeasuredRuns]) -> list[str]:
    """Return the oddities of the newest run of each scenario; what several have in common is said once."""
    runs: dict[str, list[str]] = {}
    for m in measured:
        newest = f" (newest of {len(m.runs)} runs)" if len(m.runs) > 1 else ""
        for sentence in _of_run(m.run):
            runs.setdefault(sentence, []).append(f"{m}{newest}")
    said = (
        f"{', '.join(names)}: {sentence}" if len(names) < len(measured) or len(names) == 1 else sentence
        for sentence, names in runs.items()
    )
    return [*_between(measured), *said]


def _between(measured: Sequence[MeasuredRuns]) -> Iterator[str]:
    runs = [m.run for m in measured]
    machines = [run.machine_text for at, run in enumerate(runs) if not any(map(run.same_machine, runs[:at]))]
    if len(machines) > 1:
        names = "; ".join(sorted(machines))
        yield f"These runs are of {len(machines)} machines ({names}): latencies of different machines are not compared."
    revisions = {m.run.code for m in measured}
    if len(revisions) > 1:
        yield f"These runs were made by {len(revisions)} different states of the lab (see “revision” of each run)."


def _of_run(run: StoredRun) -> Iterator[str]:
    if not run.valid:
        yield f"INVALID: {run.invalid_because or 'no reason is given'}. Its figures are shown and prove nothing."
    if why := quiet.why_not(run.document):
        yield f"The run was not quiet: {why}."
    untouched = run.treatment("robot untouched by the load")
    if untouched is not None and not untouched["verified"]:
        short = f"Bridge and robot were short of processor time: {untouched['found']}."
        yield f"{short} What depends on O or R being the loop's alone is undecided."
    yield from doubts(run.document)
