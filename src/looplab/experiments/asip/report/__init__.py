"""The report on asip: one microcontroller over serial, TCP and MQTT, beside what was published."""

from looplab.experiments.asip import THROUGHPUT, AsipCell, LatencyCell, ThroughputCell
from looplab.report.cell import MeasuredCell
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import UNKNOWN, Interval


class MeasuredAsip(MeasuredCell, AsipCell):
    """One client over one transport."""

    def known(self, name: str) -> Interval:
        """Return a figure with its interval, UNKNOWN if it is one of the other scenario."""
        return self.interval(name) if name.partition(".")[0] in self.columns else UNKNOWN


class MeasuredLatency(MeasuredAsip, LatencyCell):
    """One client whose tests were timed."""


class MeasuredThroughput(MeasuredAsip, ThroughputCell):
    """One client whose highest frequency was searched."""


CELLS = {"": MeasuredLatency, THROUGHPUT: MeasuredThroughput}


def unfitted(run: MeasuredRuns) -> list[MeasuredAsip]:
    """Return the valid cells that depend on no fitted constant: claims rest on these alone."""
    return [cell for cell in usable(run) if not cell.fitted]


def usable(run: MeasuredRuns) -> list[MeasuredAsip]:
    """Return the valid cells."""
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredAsip) and cell.valid]
