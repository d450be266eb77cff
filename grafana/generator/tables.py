"""Tables: one instant query each."""

from typing import Any

from generator.panels import NO_VALUE, Panel, fields, panel, target
from generator.styles import Override, by_name, widths


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
    steps = [*to_matrix("series", "stat"), organized]
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
    steps += [sorted_by(order)] if order else []
    return _table(title, description, expression, steps, {}, overrides, no_value)


def to_matrix(row: str, column: str) -> list[dict[str, Any]]:
    """Return the steps: sort by the label that names things, then a line for each `row`, a column for each `column`."""
    cells = {"columnField": column, "rowField": row, "valueField": "Value", "emptyValue": "null"}
    return [sorted_by("series"), {"id": "groupingToMatrix", "options": cells}]


def sorted_by(field: str) -> dict[str, Any]:
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
