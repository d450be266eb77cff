"""Write the reports on stored runs: a page for each experiment that has runs, with figures and CSV files.

An experiment's `report` package may give `claims.py` and claims.csv, `figures.py` (TITLES; `sketches` of the runs of
one fidelity), a template page.html.j2, and instead of the two modules an `analysis.py` with `analyse`. `./lab report`
hands the experiments in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.errors import EXIT_GOOD, EXIT_INVALID, MachineError
from looplab.report.csv_rows import write_csv
from looplab.report.drawing import OVERVIEW
from looplab.report.stored import Selection, StoredRun, read_run, run_folders
from looplab.spec.experiment import Experiment, Experiments
from looplab.system.terminal import fitted
from looplab.system.words import plural

if TYPE_CHECKING:
    from looplab.report.analysis import Analysis
    from looplab.report.drawing import Plot
    from looplab.report.samples import MeasuredRuns
    from looplab.report.verdicts import Verdicts

    Report = tuple[Sequence[MeasuredRuns], Analysis, str]


def write_reports(results: Path, named: Sequence[str], out: Path, experiments: Experiments) -> int:
    """Write a report on the runs of `named` (run ids or folders), or on the newest of each kind in `results`.

    The page of the default experiment also names each folder that holds no run. Return the exit code: 1 if a page has
    no usable run, or if a named run is unusable. LabError (exit code 3) if `out` cannot be written.
    """
    selections = {name: Selection() for name in experiments}
    for folder in run_folders(results, named):
        run = read_run(folder, experiments)
        selection = selections[run.experiment]
        (selection.runs if isinstance(run, StoredRun) else selection.unusable).append(run)  # type: ignore[arg-type]
    found = {name: one for name, one in selections.items() if one.runs or one.unusable}
    used = found or {experiments.default: Selection()}
    code = EXIT_GOOD
    rows: list[dict[str, str]] = []
    for name, selection in used.items():
        measured = _write_report(experiments[name], selection, out)
        rows += _run_rows(measured, selection)
        if not measured or (named and selection.unusable):
            code = EXIT_INVALID
    write_csv(out / "runs.csv", rows)
    return code


def page_name(experiment: Experiment) -> str:
    """Return the name of the page of an experiment's report."""
    return str(getattr(experiment.optional_part("report"), "PAGE", f"{experiment.name}.html"))


def _write_report(experiment: Experiment, selection: Selection, out: Path) -> Sequence[MeasuredRuns]:
    """Write the page of one experiment, name in the terminal what it found, and return the runs it shows."""
    measured, analysis, text = _sound_report(experiment, selection)
    page = out / page_name(experiment)
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for plot in analysis.plots:
            for ending, image in plot.images.items():
                (out / "figures" / f"{plot.name}.{ending}").write_bytes(image)
        for name, rows in analysis.csv_files.items():
            write_csv(out / name, rows)
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MachineError(
            f"The report cannot be written to {out}: {error.strerror}.", "Name another folder: --out DIR"
        ) from error
    for line in _found(experiment.name, measured, analysis.verdicts):
        print(fitted(line, sys.stdout, " " * 6))
    for problem in selection.unusable:
        print(fitted(str(problem), sys.stdout))
    # Never broken, so that it can be copied.
    print(page)
    return measured


def _sound_report(experiment: Experiment, selection: Selection) -> Report:
    """Return the report; a run that no report can show becomes one of `selection.unusable`."""
    runs, unusable = [*selection.runs], [*selection.unusable]
    try:
        return _report(experiment, selection)
    except Exception:
        for run in runs:
            try:
                _report(experiment, Selection([run]))
            except Exception as error:
                unusable.append(run.damaged(f"It cannot be shown ({type(error).__name__}: {error}): run it again."))
        left_out = {one.name for one in unusable}
        sound = [run for run in runs if run.name not in left_out]
        if len(sound) == len(runs):
            raise
        selection.runs, selection.unusable, selection.set_aside = sound, unusable, []
        return _report(experiment, selection)


def _report(experiment: Experiment, selection: Selection) -> Report:
    """Return the measured runs, what they show, and the page."""
    # Imported here: a list of stored runs needs neither.
    from looplab.report.analysis import analysed
    from looplab.report.samples import measure

    measured = measure(selection)
    analysis = analysed(experiment, measured)
    analysis = replace(analysis, csv_files={name: [*rows] for name, rows in analysis.csv_files.items()})
    # Drawn here, so that a run which cannot be drawn is found.
    for plot in analysis.plots:
        _images = plot.images
    return measured, analysis, page_text(experiment, analysis, measured, selection, analysis.plots)


def page_text(
    experiment: Experiment,
    analysis: Analysis,
    measured: Sequence[MeasuredRuns],
    selection: Selection,
    plots: Sequence[Plot] = (),
) -> str:
    """Return the page of one experiment."""
    from looplab.report.page import page

    runs = [one.run for m in measured for one in m.runs]
    asked = _with_runs(analysis.verdicts)
    context = {
        "experiment": experiment,
        "measured": measured,
        "machines": sorted({run.machine_text for run in runs}),
        "revisions": sorted({str(run.document["environment"].get("revision", "unknown")) for run in runs}),
        # The command lines that made these runs, each once.
        "repeat": [*filter(None, dict.fromkeys(run.document.get("command_line") for run in runs))],
        "verdicts": analysis.verdicts,
        "asked": asked,
        "unasked": [one for one in analysis.verdicts if one not in asked],
        "overview": next((d for d in plots if d.figure == OVERVIEW), None),
        "unusable": selection.unusable,
        "set_aside": selection.set_aside,
        "files": [*analysis.csv_files, "runs.csv"],
        "figures": [
            (heading, text, [plot for plot in plots if plot.figure in numbers])
            for heading, text, numbers in analysis.headings
        ],
        **analysis.context,
    }
    own = experiment.folder / "report" / "page.html.j2"
    return page(own if own.is_file() else Path(__file__).parent / "experiment.html.j2", context)


def _with_runs(verdicts: Verdicts) -> Verdicts:
    """Return the claims with runs."""
    return [(claim, answers) for claim, answers in verdicts if any(verdict.run for verdict in answers.values())]


def _found(name: str, measured: Sequence[MeasuredRuns], verdicts: Verdicts) -> Iterator[str]:
    """Yield what the terminal shows of an experiment."""
    runs = [one.run for m in measured for one in m.runs]
    yield f"{name}: {plural(len(runs), 'run')}, {sum(run.samples for run in runs):,} messages"
    asked = _with_runs(verdicts)
    for claim, by_fidelity in asked:
        words = [f"{fidelity}: {verdict.word}" for fidelity, verdict in by_fidelity.items()]
        yield f"  {claim.title}\n      {', '.join(words)}"
    if unasked := len(verdicts) - len(asked):
        yield f"  {plural(unasked, 'claim')} without runs: the page names the scenarios to compare"


def _run_rows(measured: Sequence[MeasuredRuns], selection: Selection) -> list[dict[str, str]]:
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
