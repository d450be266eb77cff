"""./lab report: from stored runs to pages, tables and figures."""

from collections.abc import Sequence
from pathlib import Path

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.shell import write_reports

DEFAULT_OUT = "report"


def report(root: Path, runs: Sequence[str], out: Path | None, show: bool) -> int:
    """Write a page for each experiment that has runs, CSV tables and figures to `out`; return the exit code.

    The host opens the page if it is to be shown.
    """
    del show
    return write_reports(root / "results", runs, out or root / DEFAULT_OUT, EXPERIMENTS)
