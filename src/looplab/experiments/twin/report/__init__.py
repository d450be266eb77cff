"""The report on twin: what limits a digital twin, beside the paper's figures."""

from collections.abc import Mapping
from functools import cache

from looplab.experiments.twin import TwinCell
from looplab.report.cell import MeasuredCell
from looplab.report.csv_rows import printed
from looplab.report.samples import MeasuredRuns

# A queue is longer than this share of the messages that were sent, and leaves the rate out behind the rate in by it.
QUEUE_SHARE = 0.05


class MeasuredTwin(MeasuredCell, TwinCell):
    """One interval, set of brokers, write mode and QoS; repetitions are cells of their own."""

    @property
    def queues(self) -> bool:
        """Whether a queue formed: more messages waited than some that arrive in a batch, and less left than came in."""
        came_in, left = self.rate_in_per_s, self.rate_out
        behind = came_in is None or left is None or left < (1 - QUEUE_SHARE) * came_in
        return behind and (self.queue_max or 0) > QUEUE_SHARE * self.sent

    @property
    def rate_out(self) -> float | None:
        """Messages stored a second; None for fewer than two, or in an INVALID cell."""
        return self.figure("rate_out_per_s")

    def broker_figures(self, name: str) -> list[float]:
        """Return a figure of each broker, in their order; brokers without one are left out."""
        return [float(one[name]) for one in self.per_broker if one[name] is not None]


CELLS = {"": MeasuredTwin}


@cache
def published() -> Mapping[tuple[str, int, str], float]:
    """Return the figures that the paper's text gives, by name, number of brokers and placement ("" for one)."""
    lines = printed(__file__, "twin.csv")
    return {(line["name"], int(line["brokers"]), line["placement"]): float(line["value"]) for line in lines}


def cells_of(run: MeasuredRuns) -> list[MeasuredTwin]:
    """Return the valid cells of all runs alike."""
    cells = (cell for one in run.runs for cell in one.cells.values())
    return [cell for cell in cells if isinstance(cell, MeasuredTwin) and cell.valid]
