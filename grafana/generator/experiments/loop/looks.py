"""Each scenario, latency and quantile has one colour and dash, everywhere the same."""

from typing import Any

from generator.looks import Override, by_name, by_regex, colours, dashed, line
from generator.panels import Panel
from generator.tables import SHARE, cdf_axis, xy_panel

# Nine hues that colour-blind people tell apart (Paul Tol's muted scheme).
SCENARIO_COLOURS = {
    "scenario0": "#332288",
    "scenario1": "#117733",
    "scenario2": "#CC6677",
    "scenario3": "#88CCEE",
    "scenario4": "#AA4499",
    "scenario5": "#DDAA33",
    "scenario6": "#44AA99",
    "scenario7": "#882255",
    "scenario8": "#777711",
}
# Not by colour alone: stress is dashed, stress with priority long-dashed, flood dotted.
_STRESS, _PRIORITY, _FLOOD = [8, 6], [18, 6], [2, 6]
SCENARIO_DASHES = {
    **dict.fromkeys(("scenario2", "scenario3"), _STRESS),
    **dict.fromkeys(("scenario4", "scenario5", "scenario6"), _PRIORITY),
    **dict.fromkeys(("scenario7", "scenario8"), _FLOOD),
}
METRICS = {"O": "O, without the robot", "T": "T, in all", "R": "R, at the robot"}
_METRIC_COLOURS = {"T": "#332288", "R": "#117733", "O": "#CC6677"}
_METRIC_DASHES = {"R": [2, 6], "O": [8, 6]}
# The parts of O, of src/looplab/experiments/loop/ledger.py; those of one end have one hue.
OVERHEAD_PARTS = {
    "network": "network and broker",
    "bridge_wake_up": "bridge's wake-up",
    "bridge_send_path": "bridge's send path",
    "send_path": "controller's send path",
    "wake_up": "controller's wake-up",
}
OVERHEAD_COLOURS = {
    "network and broker": "#BBBBBB",
    "bridge's wake-up": "#E69F00",
    "bridge's send path": "#D55E00",
    "controller's send path": "#0072B2",
    "controller's wake-up": "#56B4E9",
}
QUANTILE_COLOURS = {"p50": "#88CCEE", "p95": "#44AA99", "p99": "#CC6677", "p99.9": "#882255"}


def cdf_panel(
    title: str,
    description: str,
    expression: str,
    *,
    x_label: str,
    series: str = "series",
    x_min_s: float | None = 0.0001,
    overrides: list[Override] | None = None,
) -> Panel:
    """Return an XY chart of CDFs from one instant query with the labels `series` and `le`."""
    return xy_panel(
        title,
        description,
        expression,
        row="le",
        series=series,
        x=cdf_axis(x_label, x_min_s, 1),
        y=SHARE,
        y_label="share of messages answered within x",
        overrides=scenario_overrides() if overrides is None else overrides,
    )


def metric_overrides() -> list[Override]:
    """Return colour and dash of T, R and O."""
    return [*colours(_METRIC_COLOURS), *(by_name(name, dashed(dash)) for name, dash in _METRIC_DASHES.items())]


def scenario_overrides() -> list[Override]:
    """Return colour and dash of each scenario's curve, and its published points as squares of that colour."""
    curves = [
        by_regex(f"/^{name}( |$)/", line(colour, SCENARIO_DASHES.get(name)))
        for name, colour in SCENARIO_COLOURS.items()
    ]
    published: dict[str, Any] = {
        "custom.show": "points",
        "custom.pointSize": {"fixed": 14},
        "custom.pointShape": "square",
        "custom.fillOpacity": 0,
        "custom.pointStrokeWidth": 3,
        # They have their scenario's colour, and would double the legend.
        "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
    }
    return [*curves, by_regex("/ published$/", published)]
