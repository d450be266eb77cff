"""The report on balance: whether the robot stands, beside what theory says."""

from looplab.experiments.balance import BalanceCell
from looplab.report.cell import MeasuredCell
from looplab.report.samples import MeasuredRuns


class MeasuredBalance(MeasuredCell, BalanceCell):
    """One interval at one quality of service, measured."""

    def length_s(self, repetitions: int) -> float:
        """Return how long one of so many repetitions of a run lasted; of several runs as of one."""
        return self.interval_ms / 1000 * self.sent / max(1, repetitions) / max(1, len(self.runs))


CELLS = {"": MeasuredBalance}


def cells_of(run: MeasuredRuns) -> list[MeasuredBalance]:
    """Return the cells of a run of balance, by their keys."""
    return [cell for _, cell in sorted(run.cells.items()) if isinstance(cell, MeasuredBalance)]
