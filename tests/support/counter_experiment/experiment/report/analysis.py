"""From measured runs of the counter to its claim, its CSV file and its page."""

from collections.abc import Sequence

from looplab.experiments.counter.report.claims import claims

from looplab.report.cells import cell_row
from looplab.report.samples import Measured, by_fidelity
from looplab.report.shell import Analysis
from looplab.report.verdicts import judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each fidelity."""
    rows = [cell_row(run, cell) for run in measured for cell in run.cells.values()]
    return Analysis(judge(claims(), by_fidelity(measured)), [], {"counter-cells.csv": rows}, {"sections": {}.items()})
