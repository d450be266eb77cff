"""The report on balance: whether the robot stands, live and driven by stored runs, beside what theory says."""

from looplab.experiments.balance import BalanceCell
from looplab.report.cell import MeasuredCell


class MeasuredBalance(MeasuredCell, BalanceCell):
    """One interval at one quality of service, measured."""


CELLS = {"": MeasuredBalance}
