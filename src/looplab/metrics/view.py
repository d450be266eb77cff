"""How the cells of an experiment are shown in a terminal: `VIEW` in its metrics.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CellsView:
    """`label` and `second` identify cells, their columns are `heading` and `second_heading`.

    `curves` introduces the current cell. `metrics` are drawn in their order, each with its meaning; the table shows the
    last one's quantiles. `unit` follows the label's value. `outcomes` are counted in a column each, named here: the
    first is the good one.
    """

    label: str
    heading: str
    curves: str
    metrics: Mapping[str, str]
    unit: str = " ms"
    second: str = "qos"
    second_heading: str = "QoS"
    outcomes: Mapping[str, str] = field(
        default_factory=lambda: {"answered": "answ.", "late": "late", "lost": "lost", "robot_error": "err"}
    )
