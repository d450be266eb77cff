"""Tables: one instant query each."""

from typing import Any

from generator.panels import NO_VALUE, Panel, panel, target
from generator.queries import STATISTICS
from generator.styles import Override, override, widths


def matrix(title: str, description: str, expression: str, *, row_px: int, no_value: str = NO_VALUE) -> Panel:
    """Return a table with a line for each label `series`, a cell, and a column for each of STATISTICS, by label `stat`.

    The columns sent and n are counts; all others are seconds.
    """
    headings = {"series\\stat": "cell", **{name: name for name in STATISTICS}}
    steps = [*to_matrix("series", "stat"), _organized(headings)]
    counts = [override(name, {"unit": "none", "decimals": 0, "custom.width": 55}) for name in ("sent", "n")]
    shown = {"noValue": no_value, "unit": "s", "decimals": 1}
    return _table(title, description, expression, steps, shown, [*widths({"cell": row_px}), *counts])


def listing(
    title: str,
    description: str,
    expression: str,
    *,
    columns: dict[str, str],
    overrides: list[Override],
    no_value: str = NO_VALUE,
) -> Panel:
    """Return a table of labels: `columns` maps a label (or Value) to its heading, in order; no other is shown.

    The lines are sorted by the first: Prometheus gives them in no order.
    """
    hidden = (name for name in ("Time", "Value") if name not in columns)
    steps = [_organized(columns, *hidden), sorted_by(next(iter(columns.values())))]
    return _table(title, description, expression, steps, {"noValue": no_value}, overrides)


def to_matrix(row: str, column: str) -> list[dict[str, Any]]:
    """Return the steps: sort by the label that names things, then a line for each `row`, a column for each `column`."""
    cells = {"columnField": column, "rowField": row, "valueField": "Value", "emptyValue": "null"}
    return [sorted_by("series"), {"id": "groupingToMatrix", "options": cells}]


def sorted_by(field: str) -> dict[str, Any]:
    return {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": field}]}}


def _organized(columns: dict[str, str], *hidden: str) -> dict[str, Any]:
    """Return the step that orders and renames `columns`, and hides others."""
    places = {name: index for index, name in enumerate(columns)}
    options = {"excludeByName": dict.fromkeys(hidden, True), "indexByName": places, "renameByName": columns}
    return {"id": "organize", "options": options}


def _table(
    title: str, description: str, expression: str, steps: list[Any], shown: dict[str, Any], overrides: list[Override]
) -> Panel:
    # Grafana's own least width, 150, would push the last columns of a table out of sight.
    return panel(
        "table",
        title,
        description,
        [target(expression, instant=True, table=True)],
        {**shown, "custom": {"minWidth": 60}},
        overrides,
        transformations=steps,
        options={"showHeader": True, "cellHeight": "sm"},
    )
