"""The report on balance: whether the robot stands, beside what theory says."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from looplab.experiments.balance import BalanceCell
from looplab.report.cell import MeasuredCell

if TYPE_CHECKING:
    from looplab.report.samples import MeasuredRuns


class MeasuredBalance(MeasuredCell, BalanceCell):
    """One interval at one quality of service, measured."""

    def length_s(self, repetitions: int) -> float:
        """Return how long one of so many repetitions of a run lasted; of several runs as of one."""
        return self.interval_ms / 1000 * self.sent / max(1, repetitions) / max(1, len(self.runs))


CELLS = {"": MeasuredBalance}


def balance_cells(measured: "MeasuredRuns") -> Iterable[MeasuredBalance]:
    """Return the cells of a run of balance, with their type."""
    return cast(Iterable[MeasuredBalance], measured.cells.values())
