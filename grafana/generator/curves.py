"""CDFs; each scenario, latency and quantile has one colour and dash, everywhere the same."""

from collections.abc import Sequence
from typing import NamedTuple

from generator.panels import LEGEND, NO_VALUE, Panel, panel, target
from generator.queries import cdf, joined, or_named
from generator.styles import CORRECTED, LOGARITHMIC, Override, dashed, line, override
from generator.tables import sorted_by, to_matrix

# Not by colour alone: stress is dashed, stress with priority long-dashed, flood dotted.
_STRESS, _PRIORITY, _FLOOD = [8, 6], [18, 6], [2, 6]


class Look(NamedTuple):
    """How legends and tables call a scenario, its colour and its dash (solid without)."""

    words: str
    colour: str
    dash: Sequence[int] = ()


# Nine hues after Paul Tol's muted scheme, each at least 3:1 on white and on Grafana's dark panels.
SCENARIOS = {
    "scenario0": Look("no robot", "#5858E1"),
    "scenario1": Look("robot", "#117733"),
    "scenario2": Look("stress", "#CC6677", _STRESS),
    "scenario3": Look("stress, no robot", "#3D98D3", _STRESS),
    "scenario4": Look("stress, broker first", "#AA4499", _PRIORITY),
    "scenario5": Look("stress, broker and client first", "#C27C1A", _PRIORITY),
    "scenario6": Look("stress, broker first, no robot", "#2A9D8F", _PRIORITY),
    "scenario7": Look("flood", "#C72375", _FLOOD),
    "scenario8": Look("flood, client first", "#777711", _FLOOD),
}
# The curve of each metric: colour and dash.
_METRIC_CURVES = {"T": ("#5858E1", ()), "R": ("#117733", _FLOOD), "O": ("#CC6677", _STRESS)}
# The parts of O, of src/looplab/experiments/loop/ledger.py, with name and colour; those of one end have one hue.
OVERHEAD_PARTS = {
    "network": ("network and broker", "#8A8A8A"),
    "bridge_wake_up": ("bridge's wake-up", "#C27C1A"),
    "bridge_send_path": ("bridge's send path", "#D55E00"),
    "send_path": ("controller's send path", "#0072B2"),
    "wake_up": ("controller's wake-up", "#4A94DF"),
}
QUANTILE_COLOURS = {"p50": "#3D98D3", "p99": "#CC6677"}
# Not by colour alone: the cells of an experiment beside the loop differ in these, too; the last that matches counts.
CELLS_APART = [
    override(pattern, dashed(dash))
    for pattern, dash in (("/QoS 1|java|bare/", _STRESS), ("/QoS 2|100 ms|mqtt/", _FLOOD), ("/50 ms|tcp/", _PRIORITY))
]
# Published points in grey: circles without a robot, filled under load, smaller with priority. XY charts have no others.
_POINTS = [
    override("/[036] published$/", {"custom.pointShape": "circle"}),
    override("/[2-8] published$/", {"custom.fillOpacity": 100}),
    override("/[46] published$/", {"custom.pointSize": {"fixed": 10}}),
    override("/5 published$/", {"custom.pointSize": {"fixed": 6}}),
]
THIN_MEDIAN = override("/p50$/", {"custom.lineWidth": 1})


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
    """Return an XY chart of CDFs from one instant query with the labels `series` and `le`.

    The axis of seconds begins at the first bound there is, or ends at the last, where its end is None.
    """
    # What Grafana calls the column, and the tooltip's line for it.
    field, name = "le\\series", x_label.partition(" (")[0].partition(",")[0]
    ends = {name: end for name, end in (("min", x_min_s), ("max", x_max_s)) if end is not None}
    x_axis = {"custom.axisLabel": x_label, "custom.scaleDistribution": LOGARITHMIC, "displayName": name}
    # No `decimals`: it falls on x as well, and 0 rounds the bounds of its scale to whole seconds. A maximum of y falls
    # on an x that has none of its own: its axis would end at 10 s. It is above 1, or points at 100 % are cut in half.
    y_axis = {"unit": "percentunit", "min": 0, **({} if x_max_s is None else {"max": 1.04})}
    custom = {
        "show": "points+lines",
        "pointSize": {"fixed": 3},
        "fillOpacity": 60,
        "lineWidth": 3,
        "axisLabel": "share of messages answered within x",
    }
    to_number = {"targetField": field, "destinationType": "number"}
    return panel(
        "xychart",
        title,
        description,
        [target(or_named(expression, "le", "series", no_value), instant=True, table=True)],
        {**y_axis, "color": {"mode": "palette-classic"}, "custom": custom},
        [override(field, {"unit": "s", **ends, **x_axis}), *overrides],
        transformations=[
            *to_matrix("le", "series"),
            {"id": "convertFieldType", "options": {"fields": {}, "conversions": [to_number]}},
            sorted_by(field),
        ],
        options={
            "mapping": "auto",
            "series": [],
            "legend": LEGEND,
            "tooltip": {"mode": "single", "sort": "none", "hideZeros": False},
        },
    )


def scenario_curves(selector: str, condition: str) -> str:
    """Return a query for CDFs with a readable `series` each. No-break spaces: panels leave out words that all share."""
    # A scenario of one's own has no words here.
    named = joined(cdf(selector, condition), "name", ["scenario"], "$1")
    for scenario, look in SCENARIOS.items():
        name = f"{scenario}: {look.words}".replace(" ", "\N{NO-BREAK SPACE}")
        named = f'label_replace({named}, "name", "{name}", "scenario", "{scenario}")'
    return f"max by (series, le) ({joined(named, 'series', ['name', 'fidelity', 'cell'], '$1 $2 $3')})"


def metric_overrides() -> list[Override]:
    """Return colour and dash of T, R and O, and of their quantiles; other metrics take the palette's."""
    return [override(f"/^{metric}( |$)/", line(colour, dash)) for metric, (colour, dash) in _METRIC_CURVES.items()]


def scenario_overrides() -> list[Override]:
    """Return colour and dash of each scenario's curve, and its published points in that colour."""
    curves = [override(f"/^{name}(:|\\s|$)/", line(look.colour, look.dash)) for name, look in SCENARIOS.items()]
    published = {
        "custom.show": "points",
        "custom.pointSize": {"fixed": 14},
        "custom.pointShape": "square",
        "custom.fillOpacity": 0,
        "custom.pointStrokeWidth": 3,
        # They have their scenario's colour, and would double the legend.
        "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
    }
    return [*curves, override("/corrected/", CORRECTED), override("/ published$/", published), *_POINTS]
