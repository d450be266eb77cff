"""Panels of one instant query that Grafana turns into a table: tables, and XY charts over its columns."""

from typing import Any

from generator.panels import LEGEND, NO_VALUE, Panel, fields, panel, target
from generator.styles import LOGARITHMIC, Override, by_name, widths

# No `decimals`: it falls on x as well, and 0 rounds the bounds of its scale to whole seconds.
# A little above 1: points at 100 % are cut in half otherwise.
SHARE = {"unit": "percentunit", "min": 0, "max": 1.04}


def cdf_axis(label: str, first_s: float | None, last_s: float | None) -> dict[str, Any]:
    """Return a logarithmic axis of seconds; with None it begins at the first bound there is, or ends at the last."""
    ends = {name: end for name, end in (("min", first_s), ("max", last_s)) if end is not None}
    return {"unit": "s", **ends, "custom.axisLabel": label, "custom.scaleDistribution": LOGARITHMIC}


def xy_panel(
    title: str,
    description: str,
    expression: str,
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    y_label: str,
    overrides: list[Override],
) -> Panel:
    """Return an XY chart: a curve for each value of the label `series`, x from the label `le` as a number."""
    x_field = "le\\series"
    to_number = {"targetField": x_field, "destinationType": "number"}
    # The tooltip's line for x; without a name it reads `le\series`.
    x_look = by_name(x_field, {**x, "displayName": x["custom.axisLabel"].partition(" (")[0].partition(",")[0]})
    custom = {
        "show": "points+lines",
        "pointSize": {"fixed": 3},
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
    }
    return panel(
        "xychart",
        title,
        description,
        [target(expression, instant=True, table=True)],
        transformations=[
            *_to_matrix("le", "series"),
            {"id": "convertFieldType", "options": {"fields": {}, "conversions": [to_number]}},
            _sorted_by(x_field),
        ],
        fieldConfig=fields({**y, "color": {"mode": "palette-classic"}, "custom": custom}, [x_look, *overrides]),
        options={
            "mapping": "auto",
            "series": [],
            "legend": LEGEND,
            "tooltip": {"mode": "single", "sort": "none", "hideZeros": False},
        },
    )


def matrix(
    title: str,
    description: str,
    expression: str,
    *,
    columns: list[str],
    row_title: str,
    row_px: int,
    no_value: str = NO_VALUE,
) -> Panel:
    """Return a table with a line for each label `series` and a column for each label `stat`, in the order given.

    The columns sent and n are counts; all others are seconds.
    """
    first = "series\\stat"
    organized = _organized([first, *columns], hidden=(), renamed={first: row_title})
    steps = [*_to_matrix("series", "stat"), organized]
    counts = [by_name(name, {"unit": "none", "decimals": 0, "custom.width": 60}) for name in ("sent", "n")]
    look = [*widths({row_title: row_px}), *counts]
    return _table(title, description, expression, steps, {"unit": "s", "decimals": 2}, look, no_value)


def listing(
    title: str,
    description: str,
    expression: str,
    *,
    columns: dict[str, str],
    overrides: list[Override],
    order: str = "",
    no_value: str = NO_VALUE,
) -> Panel:
    """Return a table of labels: `columns` maps a label (or Value) to its heading, in order; no other is shown.

    The lines are sorted by the heading `order`, if any: Prometheus gives them in no order.
    """
    hidden = tuple(name for name in ("Time", "Value") if name not in columns)
    steps = [_organized(list(columns), hidden=hidden, renamed=columns)]
    steps += [_sorted_by(order)] if order else []
    return _table(title, description, expression, steps, {}, overrides, no_value)


def _to_matrix(row: str, column: str) -> list[dict[str, Any]]:
    """Return the steps: sort by the label that names things, then a line for each `row`, a column for each `column`."""
    cells = {"columnField": column, "rowField": row, "valueField": "Value", "emptyValue": "null"}
    return [_sorted_by("series"), {"id": "groupingToMatrix", "options": cells}]


def _sorted_by(field: str) -> dict[str, Any]:
    return {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": field}]}}


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
    steps: list[dict[str, Any]],
    defaults: dict[str, Any],
    overrides: list[Override],
    no_value: str,
) -> Panel:
    # Grafana's own least width, 150, would push the last columns of a table out of sight.
    look = {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "minWidth": 60}
    return panel(
        "table",
        title,
        description,
        [target(expression, instant=True, table=True)],
        transformations=steps,
        fieldConfig=fields({"noValue": no_value, **defaults, "custom": look}, overrides),
        options={"showHeader": True, "cellHeight": "sm"},
    )
