"""The report on the control loop: the thesis's tables, figures and claims beside what was measured."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from looplab.experiments.loop import LoopCell
from looplab.report.cell import Key, MeasuredCell
from looplab.report.statistics import Floats

if TYPE_CHECKING:
    from looplab.report.samples import MeasuredRuns


class MeasuredLoop(MeasuredCell, LoopCell):
    """One interval at one QoS, measured."""

    @property
    def response_without_R_us(self) -> Floats:  # noqa: N802
        """Return the response of each message less its time at bridge and robot, which holds a fitted constant."""
        response_us = self.response_us.copy()
        response_us[np.isfinite(response_us)] -= self.latency_us["R"]
        return response_us


CELLS = {"": MeasuredLoop}
PAGE = "index.html"
# The thesis's scenarios, whose loads it prints.
PUBLISHED = tuple(f"scenario{number}" for number in range(9))


def cells_of(measured: "MeasuredRuns") -> Mapping[Key, MeasuredLoop]:
    """Return the cells of a scenario by (interval_ms, qos)."""
    return cast(Mapping[Key, MeasuredLoop], measured.cells)


def cells_text(keys: Collection[Key]) -> str:
    """Return cells in words: "100, 20 ms, QoS 0"."""
    qos = sorted({f"{q:g}" for _, q in keys})
    intervals = sorted({i for i, _ in keys}, reverse=True)
    return f"{', '.join(f'{i:g}' for i in intervals)} ms, QoS {', '.join(qos)}" if keys else "none"
