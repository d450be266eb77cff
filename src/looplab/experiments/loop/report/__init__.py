"""The report on the control loop: the thesis's tables, figures and claims beside what was measured."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from looplab.experiments.loop import LoopCell
from looplab.report.cell import Key, MeasuredCell

if TYPE_CHECKING:
    from looplab.report.samples import MeasuredRuns


class MeasuredLoop(MeasuredCell, LoopCell):
    """One interval at one QoS, measured."""


CELLS = {"": MeasuredLoop}
PAGE = "index.html"


def cells_of(measured: "MeasuredRuns") -> Mapping[Key, MeasuredLoop]:
    """Return the cells of a scenario by (interval_ms, qos)."""
    return cast(Mapping[Key, MeasuredLoop], measured.cells)
