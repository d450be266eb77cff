"""docs/columns.md: what the table of each experiment says, written by scripts/make-handouts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looplab.metrics.cells import figures, shown
from looplab.spec.cell import Cell
from looplab.spec.columns import Column, Count, Key, Latency, Text
from looplab.spec.experiment import Experiment, Experiments

PAGE = Path("docs/columns.md")
_HEAD = """\
# The columns of each experiment

Written by `scripts/make-handouts` from the tables in `src/looplab/experiments`. A path is that of a cell of `run.json`;
a latency there has `n`, `min`, `max`, `avg`, `p50`, `p95`, `p99` and `p999` in µs. [data.md](data.md) has the rest of a
run's files.
"""


def columns_page(experiments: Experiments) -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for one in experiments.values() for line in _experiment(one))])


def _experiment(experiment: Experiment) -> Iterator[str]:
    for scenario, cell in {"": experiment.cell, **experiment.tables}.items():
        yield f"## {scenario or experiment.name}\n"
        yield "| column | path | unit | meaning | samples.csv | Prometheus |\n|---|---|---|---|---|---|"
        yield from (_row(cell, column) for column in cell.columns.values() if column.about)
        yield ""


def _row(cell: type[Cell], column: Column[Any]) -> str:
    path = f"`{'.'.join(column.path)}`" if column.stored else ""
    samples = column.column if isinstance(column, Latency) else column.name if isinstance(column, Key) else ""
    metric = _metric(cell, column)
    cells = [f"`{column.name}`", path, column.unit, column.about, samples and f"`{samples}`", metric and f"`{metric}`"]
    return f"| {' | '.join(cells)} |"


def _metric(cell: type[Cell], column: Column[Any]) -> str:
    """Return the metric or label that holds a column, "" for none."""
    if isinstance(column, Key) or (isinstance(column, Text) and column.label):
        return f"label {column.name}"
    if isinstance(column, Count) and (column.total or column.outcome):
        return f"{cell.family}_messages" + ("_sent_total" if column.total else f'_total{{outcome="{column.outcome}"}}')
    if column is Cell.send_lateness:
        return f"{cell.family}_send_lateness_seconds"
    if column in shown(cell):
        return f'{cell.family}_latency_seconds{{metric="{column.metric}"}}'
    return f"{cell.family}_{column.metric}" if column in figures(cell) else ""
