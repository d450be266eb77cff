"""The report on qos-delay: what a delayed link does to QoS 0, 1 and 2, beside the paper's findings."""

from looplab.experiments.qos_delay import DelayCell
from looplab.report.cell import MeasuredCell


class MeasuredDelayCell(MeasuredCell, DelayCell):
    """One pair of link delays at one QoS, measured."""


CELLS = {"": MeasuredDelayCell}
