"""Panels as Grafana stores them: one function a kind. dashboard.py gives ids and places."""

from collections.abc import Sequence
from typing import Any

from generator.queries import last
from generator.styles import LOGARITHMIC, PART_COLOURS, Override, colours, fixed, override, thresholds

PLUGIN_VERSION = "12.4.0"
DATASOURCE = {"type": "prometheus", "uid": "looplab-prometheus"}
# Longer gaps are gaps; a few scrapes that a loaded machine missed are not.
GAP_MS = 15_000
LEGEND = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}

# What an empty panel says.
NO_VALUE = "nothing yet: ./lab run scenario2 --quick"

Panel = dict[str, Any]
Target = dict[str, Any]


def target(expression: str, *, legend: str = "", instant: bool = False, table: bool = False) -> Target:
    """Return one query; the panel gives its refId."""
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "format": "table" if table else "time_series",
        "instant": instant,
        "range": not instant,
        "legendFormat": legend or "__auto",
    }


def panel(
    kind: str,
    title: str,
    description: str,
    targets: list[Target],
    defaults: dict[str, Any],
    overrides: Sequence[Override],
    **rest: Any,
) -> Panel:
    """Return what every panel with queries has; its fields are drawn by `defaults` and `overrides`."""
    for number, query in enumerate(targets):
        query["refId"] = chr(ord("A") + number)
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "pluginVersion": PLUGIN_VERSION,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": [*overrides]},
        **rest,
    }


def graph(
    title: str,
    description: str,
    curves: dict[str, str],
    *,
    label: str,
    unit: str = "short",
    overrides: Sequence[Override] = (),
    stacked: bool = False,
    warn_at: float | None = None,
    logarithmic: bool = False,
    signed: bool = False,
    no_value: str = NO_VALUE,
) -> Panel:
    """Return values over time: legend -> expression; `warn_at` draws a line, `no_value` is what an empty panel says.

    Unless it is `signed`, the axis begins at zero.
    """
    defaults = {
        "unit": unit,
        "noValue": no_value,
        **({} if logarithmic or signed else {"min": 0}),
        "color": {"mode": "palette-classic"},
        "thresholds": thresholds("transparent", warn_at),
        "custom": {
            "lineWidth": 2,
            "fillOpacity": 30 if stacked else 0,
            "spanNulls": GAP_MS,
            "axisLabel": label,
            "scaleDistribution": LOGARITHMIC if logarithmic else {"type": "linear"},
            "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "off" if warn_at is None else "dashed"},
        },
    }
    return panel(
        "timeseries",
        title,
        description,
        [target(expression, legend=legend) for legend, expression in curves.items()],
        defaults,
        overrides,
        options={"legend": LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    )


def parts(
    title: str, description: str, metric: str, *, label: str, unit: str = "short", stacked: bool = False
) -> Panel:
    """Return a graph with a curve for each part of the lab, always of the same colour."""
    curves = {"{{part}}": f"max by (part) ({metric})"}
    return graph(title, description, curves, label=label, unit=unit, stacked=stacked, overrides=colours(PART_COLOURS))


def numbers(
    title: str,
    description: str,
    values: dict[str, str],
    *,
    unit: str = "short",
    mappings: Sequence[dict[str, Any]] = (),
    overrides: Sequence[Override] = (),
    no_value: str = NO_VALUE,
) -> Panel:
    """Return big single values: legend -> expression; `no_value` is what an empty panel says."""
    defaults = {
        "noValue": no_value,
        "unit": unit,
        "mappings": [*mappings],
        "color": fixed("text"),
        "thresholds": thresholds("text"),
    }
    return panel(
        "stat",
        title,
        description,
        [target(expression, legend=legend, instant=True) for legend, expression in values.items()],
        defaults,
        overrides,
        options={
            "textMode": "value_and_name",
            # Read from the last row of a class room.
            "text": {"titleSize": 16},
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    )


def messages(title: str, run: str, no_value: str = NO_VALUE, *, progress: bool = True) -> Panel:
    """Return how far a run is, if it knows, and its messages by outcome; `run` is a condition."""
    sent, planned = (f"sum({last(name)} and {run})" for name in ("lab_messages_sent_total", "lab_run_messages_planned"))
    bad = {"thresholds": thresholds("text", 1), "color": {"mode": "thresholds"}}
    return numbers(
        title,
        "Sent, of all that this run will send at most, then by outcome. Every message is counted once; the rest is "
        "under way. Of the loop, late: answered after the deadline; lost: no answer within twice the deadline.",
        {
            **({"progress": f"{sent}\n/ {planned}"} if progress else {}),
            "sent": sent,
            "{{outcome}}": f"sum by (outcome) ({last('lab_messages_total')} and {run})",
        },
        # Every single message: not 1.47 K.
        unit="none",
        overrides=[
            override("progress", {"unit": "percentunit", "decimals": 0}),
            override("/^(late|lost|robot_error|failed|refused)$/", bad),
        ],
        no_value=no_value,
    )


def words(title: str, description: str, markdown: str) -> Panel:
    """Return a text panel: it has no query."""
    return {
        "type": "text",
        "title": title,
        "description": description,
        "pluginVersion": PLUGIN_VERSION,
        "options": {"mode": "markdown", "content": markdown},
    }
