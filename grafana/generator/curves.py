"""CDFs; each scenario, latency and quantile has one colour and dash, everywhere the same."""

from typing import Any

from generator.panels import NO_VALUE, Panel
from generator.queries import cdf, joined, or_named
from generator.styles import CORRECTED, Override, by_regex, fixed, line, other_shade
from generator.tables import SHARE, cdf_axis, xy_panel

# Nine hues after Paul Tol's muted scheme, each at least 3:1 on white and on Grafana's dark panels.
SCENARIO_COLOURS = {
    "scenario0": "#5858E1",
    "scenario1": "#117733",
    "scenario2": "#CC6677",
    "scenario3": "#3D98D3",
    "scenario4": "#AA4499",
    "scenario5": "#C27C1A",
    "scenario6": "#2A9D8F",
    "scenario7": "#C72375",
    "scenario8": "#777711",
}
# What a scenario is, for legends and tables; its number alone says nothing to a class.
SCENARIO_WORDS = {
    "scenario0": "no robot",
    "scenario1": "robot",
    "scenario2": "stress",
    "scenario3": "stress, no robot",
    "scenario4": "stress, broker first",
    "scenario5": "stress, broker and client first",
    "scenario6": "stress, broker first, no robot",
    "scenario7": "flood",
    "scenario8": "flood, client first",
}
# Not by colour alone: stress is dashed, stress with priority long-dashed, flood dotted.
_STRESS, _PRIORITY, _FLOOD = [8, 6], [18, 6], [2, 6]
SCENARIO_DASHES = {
    **dict.fromkeys(("scenario2", "scenario3"), _STRESS),
    **dict.fromkeys(("scenario4", "scenario5", "scenario6"), _PRIORITY),
    **dict.fromkeys(("scenario7", "scenario8"), _FLOOD),
}
METRICS = {"O": "O, without the robot", "T": "T, in all", "R": "R, at the robot"}
# The curve of each metric: colour and dash.
_METRIC_CURVES = {"T": ("#5858E1", None), "R": ("#117733", [2, 6]), "O": ("#CC6677", [8, 6])}
# The parts of O, of src/looplab/experiments/loop/ledger.py; those of one end have one hue.
OVERHEAD_PARTS = {
    "network": "network and broker",
    "bridge_wake_up": "bridge's wake-up",
    "bridge_send_path": "bridge's send path",
    "send_path": "controller's send path",
    "wake_up": "controller's wake-up",
}
OVERHEAD_COLOURS = {
    "network and broker": "#8A8A8A",
    "bridge's wake-up": "#C27C1A",
    "bridge's send path": "#D55E00",
    "controller's send path": "#0072B2",
    "controller's wake-up": "#4A94DF",
}
QUANTILE_COLOURS = {"p50": "#3D98D3", "p99": "#CC6677"}
# Not by colour alone.
THIN_MEDIAN = by_regex("/p50$/", {"custom.lineWidth": 1})


def cdf_panel(
    title: str,
    description: str,
    expression: str,
    *,
    x_label: str,
    x_min_s: float | None = 0.0001,
    x_max_s: float | None = 1,
    overrides: list[Override],
    no_value: str = NO_VALUE,
) -> Panel:
    """Return an XY chart of CDFs from one instant query with the labels `series` and `le`."""
    return xy_panel(
        title,
        description,
        or_named(expression, "le", "series", no_value),
        x=cdf_axis(x_label, x_min_s, x_max_s),
        # A maximum of y falls on an x that has none of its own: its axis would end at 10 s.
        y={name: end for name, end in SHARE.items() if name != "max" or x_max_s is not None},
        y_label="share of messages answered within x",
        overrides=overrides,
    )


def scenario_curves(selector: str, condition: str) -> str:
    """Return a query for CDFs with a readable `series` each. No-break spaces: panels leave out words that all share."""
    # A scenario of one's own has no words here.
    named = joined(cdf(selector, condition), "name", ["scenario"], "$1")
    for scenario, words in SCENARIO_WORDS.items():
        name = f"{scenario}: {words}".replace(" ", "\N{NO-BREAK SPACE}")
        named = f'label_replace({named}, "name", "{name}", "scenario", "{scenario}")'
    return f"max by (series, le) ({joined(named, 'series', ['name', 'fidelity', 'cell'], '$1 $2 $3')})"


def metric_overrides() -> list[Override]:
    """Return colour and dash of T, R and O, and of their quantiles; other metrics take the palette's."""
    return [by_regex(f"/^{metric}( |$)/", line(colour, dash)) for metric, (colour, dash) in _METRIC_CURVES.items()]


def scenario_overrides() -> list[Override]:
    """Return colour and dash of each scenario's curve, and its published points as squares of that colour."""
    curves = [
        by_regex(f"/^{name}(:|\\s|$)/", line(colour, SCENARIO_DASHES.get(name)))
        for name, colour in SCENARIO_COLOURS.items()
    ]
    corrected = [
        by_regex(f"/^{name}(:|\\s).*corrected/", {"color": fixed(other_shade(colour)), **CORRECTED})
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
    return [*curves, *corrected, by_regex("/ published$/", published)]
