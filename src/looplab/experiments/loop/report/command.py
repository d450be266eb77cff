"""Write a report and say in the terminal what it found."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_MACHINE, LabError
from looplab.experiments.loop.report.curves import Panel, sketches
from looplab.experiments.loop.report.painters import Painters
from looplab.report.stored import EXPERIMENT, UNREAD, select
from looplab.system.terminal import fitted

if TYPE_CHECKING:
    from looplab.experiments.loop.report.analysis import Analysis


def write_report(results: Path, named: Sequence[str], out: Path, known: Mapping[Path, Any] = UNREAD) -> int:
    """Exit code 1 where nothing could be used, or where a run that was named could not.

    `known` is what `documents` has read already.
    """
    selection = select(results, named, known)
    with Painters(len(selection.runs)) as painters:
        # Imported here: it takes as long as the painters take to get ready.
        from looplab.experiments.loop.report.analysis import analyse

        analysis = analyse(selection)
        drawn = painters.draw([s for fidelity, runs in analysis.runs.items() for s in sketches(runs, fidelity)])
    try:
        _write(out, analysis, drawn)
    except OSError as error:
        raise LabError(
            f"The report cannot be written to {out}: {error.strerror}.", "Name another folder: --out DIR", EXIT_MACHINE
        ) from error
    _say(analysis, out)
    missed = bool(named) and bool(analysis.unusable)
    return EXIT_INVALID if missed or not analysis.measured else EXIT_GOOD


def _write(out: Path, analysis: Analysis, drawn: Sequence[Panel]) -> None:
    from looplab.experiments.loop.report.csv_files import write_csv_files
    from looplab.experiments.loop.report.page import page

    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for panel in drawn:
        (figures / f"{panel.name}.svg").write_bytes(panel.svg)
        (figures / f"{panel.name}.png").write_bytes(panel.png)
    write_csv_files(out, analysis, drawn)
    (out / "index.html").write_text(page(analysis, drawn), encoding="utf-8")


def _say(analysis: Analysis, out: Path) -> None:
    samples = sum(m.run.samples for m in analysis.measured)
    print(f"{len(analysis.measured)} run(s), {samples:,} messages")
    for claim, verdicts in analysis.verdicts:
        said = [f"{fidelity}: {verdict.outcome}" for fidelity, verdict in verdicts.items()]
        print(fitted(f"  {claim.title}\n      {', '.join(said)}", sys.stdout, " " * 6))
    apart = Counter(problem.meaning for problem in analysis.unusable if problem.kind == EXPERIMENT)
    for meaning, runs in apart.items():
        print(fitted(f"apart: {runs} run(s) {meaning}", sys.stdout))
    for problem in analysis.unusable:
        if problem.kind != EXPERIMENT:
            print(fitted(problem.told(), sys.stdout))
    # Never broken, so that it can be copied.
    print(f"{out / 'index.html'}")
