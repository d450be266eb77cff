"""The report on the counter."""

from looplab.experiments.counter import SleepCell

from looplab.report.cell import MeasuredCell


class MeasuredSleep(MeasuredCell, SleepCell):
    """The sleeps of one length, measured."""


CELLS = {"": MeasuredSleep}
PAGE = "counter.html"
