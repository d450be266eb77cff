"""How the cells of an experiment are shown in a terminal: `VIEW` in its metrics.py."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CellsView:
    """`label` identifies cells beside `qos`, `heading` is its column, `curves` introduces the current one.

    `metrics` are drawn in their order, each with its meaning; the table shows the last one's quantiles.
    """

    label: str
    heading: str
    curves: str
    metrics: Mapping[str, str]
