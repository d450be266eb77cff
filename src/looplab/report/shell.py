"""Write the reports on stored runs: a page for each experiment that has runs, with figures and CSV files.

An experiment's `report` package may give `claims.py`, `figures.py` (TITLES; `sketches` of the runs of one fidelity),
a template page.html.j2, and instead of the two modules an `analysis.py` with `analyse`. `./lab report` hands the
experiments in.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, MachineError
from looplab.report.csv_rows import write_csv
from looplab.report.drawing import OVERVIEW
from looplab.report.painters import painters
from looplab.report.stored import APART, Selection, StoredRun, Unusable, read_run, run_folders
from looplab.run.life import summary
from looplab.spec.experiment import Experiment, Experiments
from looplab.system.terminal import fitted
from looplab.system.words import plural

if TYPE_CHECKING:
    from looplab.report.analysis import Analysis
    from looplab.report.drawing import Drawing
    from looplab.report.samples import Measured
    from looplab.report.verdicts import Verdicts


@dataclass(frozen=True)
class Written:
    """The pages of a report, and the exit code: 1 if a page has no usable run, or if a named run is unusable."""

    pages: Sequence[Path]
    code: int


def write_reports(results: Path, named: Sequence[str], out: Path, experiments: Experiments) -> Written:
    """Write a report on the runs of `named` (run ids or folders), or on the newest of each kind in `results`.

    The page of the default experiment also names each folder that holds no run. LabError (exit code 3) if `out` cannot
    be written.
    """
    selections = _select([read_run(folder, experiments) for folder in run_folders(results, named)], experiments)
    code = EXIT_GOOD
    rows: list[dict[str, str]] = []
    for name, selection in selections.items():
        apart = []
        if name == experiments.default and not named:
            apart = [_apart(run) for other, one in selections.items() if other != name for run in one.folders]
        measured = _write_report(experiments[name], selection, apart, out)
        rows += _run_rows(measured, selection)
        if not measured or (named and selection.unusable):
            code = EXIT_INVALID
    write_csv(out / "runs.csv", rows)
    return Written([out / page_name(experiments[name]) for name in selections], code)


def page_name(experiment: Experiment) -> str:
    """Return the name of the page of an experiment's report."""
    return str(getattr(experiment.optional_part("report"), "PAGE", f"{experiment.name}.html"))


def _select(runs: Sequence[StoredRun | Unusable], experiments: Experiments) -> dict[str, Selection]:
    """Return the runs by experiment; without any, an empty selection for the default one."""
    selections = {name: Selection() for name in experiments}
    for run in runs:
        if isinstance(run, StoredRun):
            selections[run.experiment].runs.append(run)
        else:
            selections[run.experiment].unusable.append(run)
    return {name: one for name, one in selections.items() if one.folders} or {experiments.default: Selection()}


def _apart(run: StoredRun | Unusable) -> Unusable:
    return Unusable(run.name, APART, f"of the experiment {run.experiment}, left to its own report.", run.experiment)


def _write_report(
    experiment: Experiment, selection: Selection, apart: Sequence[Unusable], out: Path
) -> Sequence[Measured]:
    """Write the page of one experiment, name in the terminal what it found, and return the runs it shows."""
    page = page_name(experiment)
    with painters(len({(run.scenario, run.fidelity) for run in selection.runs})) as draw:
        # Imported here: it takes as long as the painters take to get ready.
        from looplab.report.analysis import analysed
        from looplab.report.samples import measure

        measured = measure(selection)
        analysis = analysed(experiment, measured)
        # Each report has such a figure, and all of them write into one folder.
        overview = f"{experiment.name.replace('-', '_')}_{OVERVIEW}"
        drawn = [replace(d, name=overview) if d.figure == OVERVIEW else d for d in draw(analysis.sketches)]
    try:
        text = page_text(experiment, analysis, measured, selection, apart, drawn)
        _write_files(out, page, analysis, drawn, text)
    except OSError as error:
        raise MachineError(
            f"The report cannot be written to {out}: {error.strerror}.", "Name another folder: --out DIR"
        ) from error
    _print_findings(experiment.name, measured, analysis.verdicts)
    for meaning, runs in Counter(problem.meaning for problem in apart).items():
        print(fitted(f"apart: {plural(runs, 'run')} {meaning}", sys.stdout))
    for problem in selection.unusable:
        print(fitted(str(problem), sys.stdout))
    # Never broken, so that it can be copied.
    print(out / page)
    return measured


def page_text(
    experiment: Experiment,
    analysis: Analysis,
    measured: Sequence[Measured],
    selection: Selection,
    apart: Sequence[Unusable] = (),
    drawn: Sequence[Drawing] = (),
) -> str:
    """Return the page of one experiment; runs in `apart` have a page of their own."""
    from looplab.report.page import page

    runs = [one.run for m in measured for one in m.runs]
    asked, unasked = _by_runs(analysis.verdicts)
    newest = max(runs, key=lambda run: run.run_id, default=None)
    context = {
        "experiment": experiment,
        "measured": measured,
        "machines": sorted({run.machine_text for run in runs}),
        "revisions": sorted({str(run.document["environment"].get("revision", "unknown")) for run in runs}),
        "repeat": _commands(runs),
        "studies": experiment.studies,
        "verdicts": analysis.verdicts,
        "asked": asked,
        "unasked": unasked,
        "newest": summary(experiment, [newest.document]) if newest else "",
        "newest_figure": newest and _figure_of(newest, drawn),
        "overview": next((d for d in drawn if d.figure == OVERVIEW), None),
        "unusable": [*selection.unusable, *apart],
        "set_aside": selection.set_aside,
        "files": [*analysis.csv_files, "runs.csv"],
        "figures": analysis.figures(drawn),
        **analysis.context,
    }
    own = experiment.folder / "report" / "page.html.j2"
    return page(own if own.is_file() else Path(__file__).parent / "experiment.html.j2", context)


def _figure_of(run: StoredRun, drawn: Sequence[Drawing]) -> Drawing | None:
    """Return the last figure with that scenario and fidelity, of which all is run if there is one: of the loop O."""
    shown = [d for d in drawn if d.fidelity == run.fidelity and f"{run.scenario}: " in d.alternative]
    return max(reversed(shown), key=lambda d: "Not run" not in d.caption, default=None)


def _commands(runs: Iterable[StoredRun]) -> list[str]:
    """Return the command lines that made these runs, each once: a page names them beside its figures."""
    commands = (run.document.get("command_line") for run in runs)
    return [command for command in dict.fromkeys(commands) if command]


def _write_files(out: Path, page: str, analysis: Analysis, drawn: Sequence[Drawing], text: str) -> None:
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for drawing in drawn:
        (figures / f"{drawing.name}.svg").write_bytes(drawing.svg)
        (figures / f"{drawing.name}.png").write_bytes(drawing.png)
    for name, rows in analysis.csv_files.items():
        write_csv(out / name, rows)
    (out / page).write_text(text, encoding="utf-8")


def _by_runs(verdicts: Verdicts) -> tuple[Verdicts, Verdicts]:
    """Return the claims with runs, and those without."""
    both: tuple[list[Any], list[Any]] = ([], [])
    for claim, answers in verdicts:
        both[not any(verdict.run for verdict in answers.values())].append((claim, answers))
    return both


def _print_findings(name: str, measured: Sequence[Measured], verdicts: Verdicts) -> None:
    runs = [one.run for m in measured for one in m.runs]
    print(f"{name}: {plural(len(runs), 'run')}, {sum(run.samples for run in runs):,} messages")
    asked, unasked = _by_runs(verdicts)
    for claim, by_fidelity in asked:
        outcomes = [f"{fidelity}: {verdict.word}" for fidelity, verdict in by_fidelity.items()]
        print(fitted(f"  {claim.title}\n      {', '.join(outcomes)}", sys.stdout, " " * 6))
    if unasked:
        print(f"  {plural(len(unasked), 'claim')} without runs: the page names the scenarios to compare")


def _run_rows(measured: Sequence[Measured], selection: Selection) -> list[dict[str, str]]:
    used = [one.run for m in measured for one in m.runs]
    lines = [
        (run.run_id, run.scenario, run.fidelity, "yes", "valid" if run.valid else "INVALID", run.invalid_because)
        for run in used
    ]
    lines += [(run.run_id, run.scenario, run.fidelity, "no", "set aside", why) for run, why in selection.set_aside]
    lines += [(bad.name, "", "", "no", bad.kind, bad.meaning) for bad in selection.unusable]
    return [
        dict(zip(("run_id", "scenario", "fidelity", "used", "state", "remark"), line, strict=True)) for line in lines
    ]
