"""./lab report: from stored runs to one page, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DEFAULT_OUT = "report"


def report(root: Path, runs: Sequence[str], out: Path | None) -> int:
    """Write index.html, CSV tables and figures to `out` (default: report/); returns the exit code."""
    # Imported late: the rest of the lab works without the columnar library and the figures.
    from looplab.errors import EXIT_GOOD, EXIT_INVALID
    from looplab.experiments.loop.report.command import write_report
    from looplab.experiments.qos_delay.report.command import write_delay_report
    from looplab.experiments.qos_delay.report.runs import is_delay_run
    from looplab.report.stored import documents

    results, place = root / "results", out or root / DEFAULT_OUT
    known = documents(results, runs)
    delay = [path for path, document in known.items() if is_delay_run(document)]
    if not delay:
        return write_report(results, runs, place, known)
    code = EXIT_GOOD if write_delay_report(delay, place, known) else EXIT_INVALID
    loop = [name for name in runs if not {results / name, Path(name)} & set(delay)]
    others = loop if runs else _folders(results) - set(delay)
    return max(code, write_report(results, loop, place, known)) if others else code


def _folders(results: Path) -> set[Path]:
    return {path for path in results.iterdir() if path.is_dir()}
