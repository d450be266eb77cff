"""./lab report: from stored runs to one page, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DEFAULT_OUT = "report"


def report(root: Path, runs: Sequence[str], out: Path | None) -> int:
    """Write index.html, CSV tables and figures to `out` (default: report/); returns the exit code."""
    # Imported late: the rest of the lab works without the columnar library and the figures.
    from looplab.report.command import write_report

    return write_report(root / "results", runs, out or root / DEFAULT_OUT)
