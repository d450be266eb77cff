"""Panels as Grafana stores them: one function a kind. Ids and places are given out by dashboard.py."""

from __future__ import annotations

from typing import Any

PLUGIN_VERSION = "12.4.0"
DATASOURCE = {"type": "prometheus", "uid": "looplab-prometheus"}

# Nine hues that colour-blind people tell apart (Paul Tol's muted scheme), one a scenario, everywhere the same.
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
SCENARIO_DASHES = {
    "scenario2": [8, 6],
    "scenario3": [8, 6],
    "scenario4": [18, 6],
    "scenario5": [18, 6],
    "scenario6": [18, 6],
    "scenario7": [2, 6],
    "scenario8": [2, 6],
}
# One curve, another one; what is well, what is not.
FIRST, SECOND, GOOD, BAD = "#332288", "#CC6677", "#117733", "#CC3311"
METRIC_COLOURS = {"T": "#332288", "R": "#117733", "O": "#CC6677"}
METRIC_DASHES = {"R": [2, 6], "O": [8, 6]}
QUANTILE_COLOURS = {"p50": "#88CCEE", "p95": "#44AA99", "p99": "#CC6677", "p99.9": "#882255"}
PART_COLOURS = {
    "controller": "#332288",
    "broker": "#CC6677",
    "bridge": "#117733",
    "robot": "#88CCEE",
    "stress": "#DDAA33",
    "flood": "#882255",
    "treatments": "#44AA99",
    "exporter": "#AA4499",
}

LEGEND = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}

Panel = dict[str, Any]


def target(expression: str, *, legend: str = "", instant: bool = False, table: bool = False) -> dict[str, Any]:
    """One query; its refId is given by the panel."""
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "format": "table" if table else "time_series",
        "instant": instant,
        "range": not instant,
        "legendFormat": legend or "__auto",
    }


def panel(kind: str, title: str, description: str, targets: list[dict[str, Any]], **rest: Any) -> Panel:
    """What every panel has."""
    for number, query in enumerate(targets):
        query["refId"] = chr(ord("A") + number)
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "pluginVersion": PLUGIN_VERSION,
        "targets": targets,
        **rest,
    }


def by_name(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """An override for one field."""
    return _override("byName", name, properties)


def by_regex(pattern: str, properties: dict[str, Any]) -> dict[str, Any]:
    """An override for all fields whose name matches."""
    return _override("byRegexp", pattern, properties)


def _override(matcher: str, options: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "matcher": {"id": matcher, "options": options},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def fixed(colour: str) -> dict[str, str]:
    """A colour that no palette changes."""
    return {"mode": "fixed", "fixedColor": colour}


def colours(table: dict[str, str]) -> list[dict[str, Any]]:
    """Fixed colours by field name."""
    return [by_name(name, {"color": fixed(colour)}) for name, colour in table.items()]


def widths(pixels: dict[str, int]) -> list[dict[str, Any]]:
    """Widths of a table's columns by their headings; the others share what is left."""
    return [by_name(name, {"custom.width": width}) for name, width in pixels.items()]


def metric_overrides() -> list[dict[str, Any]]:
    """Colour and dash of T, R and O."""
    return [*colours(METRIC_COLOURS), *(by_name(name, dashed(dash)) for name, dash in METRIC_DASHES.items())]


def dashed(dash: list[int]) -> dict[str, Any]:
    """The properties of a dashed line: lengths of stroke and gap in pixels."""
    return {"custom.lineStyle": {"fill": "dash", "dash": dash}}


def scenario_overrides() -> list[dict[str, Any]]:
    """Colour and dash of each scenario's curve, and its published points as squares of that colour."""
    found = []
    for name, colour in SCENARIO_COLOURS.items():
        look: dict[str, Any] = {"color": fixed(colour)}
        if name in SCENARIO_DASHES:
            look |= dashed(SCENARIO_DASHES[name])
        found.append(by_regex(f"/^{name}( |$)/", look))
    published = {
        "custom.show": "points",
        "custom.pointSize": {"fixed": 14},
        "custom.pointShape": "square",
        "custom.fillOpacity": 0,
        "custom.pointStrokeWidth": 3,
        # They have their scenario's colour, and would double the legend.
        "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
    }
    return [*found, by_regex("/ published$/", published)]


def _to_matrix(row: str, column: str, order: str) -> list[dict[str, Any]]:
    """Transformations: sorted by the label `order`, then one line for each `row`, one column for each `column`."""
    cells = {"columnField": column, "rowField": row, "valueField": "Value", "emptyValue": "null"}
    return [_sorted_by(order), {"id": "groupingToMatrix", "options": cells}]


# No `decimals`: it falls on x as well, and 0 rounds the bounds of its scale to whole seconds.
# A little above 1: points at 100 % are cut in half otherwise.
SHARE = {"unit": "percentunit", "min": 0, "max": 1.04}


def _sorted_by(field: str) -> dict[str, Any]:
    return {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": field}]}}


def cdf_panel(
    title: str,
    description: str,
    expression: str,
    *,
    x_label: str,
    series: str = "series",
    x_min_s: float | None = 0.0001,
    overrides: list[dict[str, Any]] | None = None,
) -> Panel:
    """An XY chart of CDFs from one instant query with the labels `series` and `le`.

    `x_min_s` None: the axis begins at the first bound there is.
    """
    x_look = {
        "unit": "s",
        **({} if x_min_s is None else {"min": x_min_s}),
        "max": 1,
        "custom.axisLabel": x_label,
        "custom.scaleDistribution": {"type": "log", "log": 10},
    }
    return xy_panel(
        title,
        description,
        expression,
        row="le",
        series=series,
        x_look=x_look,
        y=SHARE,
        y_label="share of messages answered within x",
        overrides=scenario_overrides() if overrides is None else overrides,
    )


def xy_panel(
    title: str,
    description: str,
    expression: str,
    *,
    row: str,
    series: str,
    x_look: dict[str, Any],
    y: dict[str, Any],
    y_label: str,
    overrides: list[dict[str, Any]],
    point_size: int = 3,
) -> Panel:
    """An XY chart from one instant query: a curve for each label `series`, x from the label `row` as a number."""
    x_field = f"{row}\\{series}"
    return panel(
        "xychart",
        title,
        description,
        [target(expression, instant=True, table=True)],
        transformations=[
            *_to_matrix(row, series, order=series),
            {
                "id": "convertFieldType",
                "options": {"fields": {}, "conversions": [{"targetField": x_field, "destinationType": "number"}]},
            },
            _sorted_by(x_field),
        ],
        fieldConfig={
            "defaults": {
                **y,
                "color": {"mode": "palette-classic"},
                "custom": {
                    "show": "points+lines",
                    "pointSize": {"fixed": point_size},
                    "pointShape": "circle",
                    "pointStrokeWidth": 1,
                    "fillOpacity": 60,
                    "lineWidth": 3,
                    "lineStyle": {"fill": "solid"},
                    "axisPlacement": "auto",
                    "axisLabel": y_label,
                    "axisColorMode": "text",
                    "axisBorderShow": False,
                    "scaleDistribution": {"type": "linear"},
                    "hideFrom": {"legend": False, "tooltip": False, "viz": False},
                },
            },
            "overrides": [by_name(x_field, x_look), *overrides],
        },
        options={
            "mapping": "auto",
            "series": [],
            "legend": LEGEND,
            "tooltip": {"mode": "single", "sort": "none", "hideZeros": False},
        },
    )


def graph(
    title: str,
    description: str,
    targets: list[dict[str, Any]],
    *,
    unit: str,
    label: str,
    overrides: list[dict[str, Any]] | None = None,
    stacked: bool = False,
    warn_at: float | None = None,
    logarithmic: bool = False,
) -> Panel:
    """Values over time; `warn_at` draws a line."""
    steps: list[dict[str, Any]] = [{"color": "transparent", "value": None}]
    if warn_at is not None:
        steps.append({"color": "#CC3311", "value": warn_at})
    return panel(
        "timeseries",
        title,
        description,
        targets,
        fieldConfig={
            "defaults": {
                "unit": unit,
                **({} if logarithmic else {"min": 0}),
                "color": {"mode": "palette-classic"},
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {
                    "drawStyle": "line",
                    "lineWidth": 2,
                    "fillOpacity": 30 if stacked else 0,
                    "showPoints": "auto",
                    "pointSize": 4,
                    "spanNulls": False,
                    "axisLabel": label,
                    "axisPlacement": "auto",
                    "scaleDistribution": {"type": "log", "log": 10} if logarithmic else {"type": "linear"},
                    "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
                    "thresholdsStyle": {"mode": "off" if warn_at is None else "dashed"},
                },
            },
            "overrides": overrides or [],
        },
        options={"legend": LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    )


def lines(
    title: str, description: str, curves: dict[str, tuple[str, str]], *, unit: str = "short", label: str
) -> Panel:
    """A graph of few curves: name -> (expression, colour)."""
    return graph(
        title,
        description,
        [target(expression, legend=name) for name, (expression, _colour) in curves.items()],
        unit=unit,
        label=label,
        overrides=colours({name: colour for name, (_expression, colour) in curves.items()}),
    )


def parts(title: str, description: str, expression: str, *, unit: str, label: str, stacked: bool = False) -> Panel:
    """A graph with a curve for each part of the lab, always of the same colour."""
    return graph(
        title,
        description,
        [target(f"max by (part) ({expression})", legend="{{part}}")],
        unit=unit,
        label=label,
        stacked=stacked,
        overrides=colours(PART_COLOURS),
    )


def broker_rates(title: str, description: str) -> Panel:
    """PUBLISH packets through the broker, in and out."""
    return lines(
        title,
        description,
        {
            "in": ("max(lab:broker_publish_received:per_second)", GOOD),
            "out": ("max(lab:broker_publish_sent:per_second)", SECOND),
        },
        label="packets a second",
    )


def broker_store(title: str, description: str) -> Panel:
    """What the broker holds and what it gave up."""
    return lines(
        title,
        description,
        {"held": ("max(lab_broker_stored_messages)", FIRST), "dropped": ("max(lab_broker_publish_dropped_total)", BAD)},
        label="messages",
    )


def numbers(
    title: str,
    description: str,
    targets: list[dict[str, Any]],
    *,
    unit: str = "short",
    mappings: list[dict[str, Any]] | None = None,
    overrides: list[dict[str, Any]] | None = None,
    text: str = "value_and_name",
) -> Panel:
    """Big single values."""
    return panel(
        "stat",
        title,
        description,
        targets,
        fieldConfig={
            "defaults": {
                "unit": unit,
                "mappings": mappings or [],
                "color": fixed("text"),
                "thresholds": {"mode": "absolute", "steps": [{"color": "text", "value": None}]},
            },
            "overrides": overrides or [],
        },
        options={
            "textMode": text,
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    )


def matrix(
    title: str,
    description: str,
    expression: str,
    *,
    row: str,
    column: str,
    columns: list[str],
    row_title: str,
    overrides: list[dict[str, Any]] | None = None,
) -> Panel:
    """A table with one line for each `row` label and one column for each `column` label, in the order given."""
    first = f"{row}\\{column}"
    return _table(
        title,
        description,
        expression,
        [
            *_to_matrix(row, column, order=row),
            _organized([first, *columns], hidden=(), renamed={first: row_title}),
        ],
        {"unit": "s", "decimals": 2},
        [*widths({row_title: 200}), *(overrides or [])],
    )


def statistics_table(title: str, description: str, expression: str, *, columns: list[str], row_title: str) -> Panel:
    """A matrix of the labels `series` and `stat`: latencies, and how many they are of in the column n."""
    count = {"unit": "none", "decimals": 0, "custom.width": 55}
    return matrix(
        title,
        description,
        expression,
        row="series",
        column="stat",
        columns=columns,
        row_title=row_title,
        overrides=[by_name("n", count)],
    )


def listing(
    title: str,
    description: str,
    expression: str,
    *,
    columns: dict[str, str],
    overrides: list[dict[str, Any]] | None = None,
) -> Panel:
    """A table of labels: `columns` maps a label (or Value) to its heading, in order; all else is hidden."""
    organized = _organized(list(columns), hidden=("Time",), renamed=columns)
    return _table(title, description, expression, [organized], {}, overrides)


def _organized(order: list[str], *, hidden: tuple[str, ...], renamed: dict[str, str]) -> dict[str, Any]:
    return {
        "id": "organize",
        "options": {
            "excludeByName": dict.fromkeys(hidden, True),
            "includeByName": {},
            "indexByName": {name: index for index, name in enumerate(order)},
            "renameByName": renamed,
        },
    }


def _table(
    title: str,
    description: str,
    expression: str,
    transformations: list[dict[str, Any]],
    defaults: dict[str, Any],
    overrides: list[dict[str, Any]] | None,
) -> Panel:
    # Grafana's own least width, 150, would push the last columns of a table out of sight.
    look = {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "minWidth": 60}
    return panel(
        "table",
        title,
        description,
        [target(expression, instant=True, table=True)],
        transformations=transformations,
        fieldConfig={"defaults": {**defaults, "custom": look}, "overrides": overrides or []},
        options={"showHeader": True, "cellHeight": "sm"},
    )


def words(title: str, markdown: str) -> Panel:
    """A text panel: no query."""
    return {
        "type": "text",
        "title": title,
        "pluginVersion": PLUGIN_VERSION,
        "options": {"mode": "markdown", "content": markdown},
    }
