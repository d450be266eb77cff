"""What figures 6.1 to 6.5 show, as numbers: CDFs, with the band of the repetitions' own CDFs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from looplab.experiments.loop.report import cells_of
from looplab.report.statistics import Floats

if TYPE_CHECKING:
    from looplab.report.samples import Measured

METRICS = {"R": "R, getting the measurement from the robot", "O": "O, MQTT, network and containers"}
LINE_POINTS = 240
# The band holds the repetitions' own curves, except their highest and lowest 5 %.
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class Curve:
    """A CDF over `x_us`: of all values, and the band of the repetitions' own CDFs."""

    scenario: str
    count: int
    repetitions: int
    intervals_ms: tuple[float, ...]
    x_us: Floats
    share: Floats
    low: Floats
    high: Floats


def curve_of(measured: Measured, metric: str) -> Curve | None:
    """All cells of the run at QoS 0 as one CDF; None where nothing was measured."""
    cells = [cell for (_, qos), cell in cells_of(measured).items() if qos == 0 and cell.measured]
    if not cells:
        return None
    values = np.sort(np.concatenate([cell.latency_us[metric] for cell in cells]))
    shares = np.linspace(0, 1, LINE_POINTS)
    # Denser towards the tail, to the very maximum.
    shares = np.unique(np.concatenate([shares, 1 - np.geomspace(1 / values.size, 0.05, 60), [1.0]]))
    x = np.unique(np.quantile(values, shares))
    own = _own_curves([(cell.repetition_of, cell.latency_us[metric]) for cell in cells], x)
    low, high = np.quantile(own, BAND, axis=0)
    intervals = tuple(sorted(cell.interval_ms for cell in cells))
    share = np.searchsorted(values, x, side="right") / values.size
    return Curve(measured.run.scenario, values.size, own.shape[0], intervals, x, share, low, high)


def _own_curves(cells: Sequence[tuple[NDArray[np.int64], Floats]], x: Floats) -> Floats:
    """The CDF of each repetition at `x`, where repetition k is that of all intervals together."""
    size = 1 + max(int(repetition.max()) for repetition, _ in cells)
    held = np.zeros(size * (x.size + 1), dtype=np.int64)
    for repetition, values in cells:
        slots = repetition.astype(np.int64) * (x.size + 1) + np.searchsorted(x, values)
        held += np.bincount(slots, minlength=held.size)
    counts = np.cumsum(held.reshape(size, -1), axis=1)
    counts = counts[counts[:, -1] > 0]
    own: Floats = counts[:, :-1] / counts[:, -1:]
    return own
