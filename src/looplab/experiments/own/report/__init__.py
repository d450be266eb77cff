"""The report on an application of one's own: how long its answers take, where the time goes, what a load does to it."""

from looplab.experiments.own import OwnCell
from looplab.report.cell import MeasuredCell


class MeasuredOwn(MeasuredCell, OwnCell):
    """The requests of one topic filter, measured."""


CELLS = {"": MeasuredOwn}
