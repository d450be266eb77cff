"""Published and measured side by side: the rows of tables 5.2 to 5.9, and of scenarios the thesis does not have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from looplab.experiments.loop import thesis_tables
from looplab.experiments.loop.fitted import standing
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.thesis_tables import PublishedRow
from looplab.report.cell import QUANTILES
from looplab.report.csv_rows import number, spread
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Interval

METRICS = ("T", "O", "R")


@dataclass(frozen=True)
class TableRow:
    """One metric of one cell: what was printed, and what was measured (None: no such cell).

    `standing` is "fitted" or "prediction" if a fitted constant is behind the measured figure, else "".
    """

    metric: str
    interval_ms: float
    qos: int
    printed: PublishedRow
    cell: MeasuredLoop | None
    standing: str

    @property
    def difference(self) -> Interval | None:
        """Measured minus printed mean; the printed one is taken as exact, its spread is not known."""
        printed = self.printed.figure(self.metric, "avg")
        if printed is None or self.cell is None:
            return None
        mean = self.cell.interval(f"{self.metric}.avg")
        return Interval(mean.estimate - printed, mean.low - printed, mean.high - printed)


@dataclass(frozen=True)
class Table:
    """One scenario at one fidelity; `number` is the thesis's table, "" if it has none."""

    number: str
    measured: MeasuredRuns | None
    rows: Sequence[TableRow]


# The tables of each scenario by fidelity.
Tables = Sequence[tuple[str, Mapping[str, Table]]]


def tables(runs: Mapping[str, Runs]) -> Tables:
    """Return the tables of each scenario of the thesis, then of every other that was run; by fidelity, thesis first."""
    named = dict.fromkeys(row.scenario for row in thesis_tables.rows())
    others = sorted({scenario for of_fidelity in runs.values() for scenario in of_fidelity} - set(named))
    shown: list[tuple[str, Mapping[str, Table]]] = []
    for scenario in [*named, *others]:
        labels = sorted(runs, key=lambda label: (not label.startswith("thesis"), label))
        run_at = [label for label in labels if scenario in runs[label]]
        by_fidelity = {fidelity: _table(scenario, runs[fidelity][scenario]) for fidelity in run_at}
        shown.append((scenario, by_fidelity or {"": _table(scenario, None)}))
    return shown


def _table(scenario: str, measured: MeasuredRuns | None) -> Table:
    """Return all cells that were printed or measured, in the thesis's order first."""
    printed = [(row.interval_ms, row.qos) for row in thesis_tables.rows() if row.scenario == scenario]
    cells = cells_of(measured) if measured else {}
    rows = []
    for ms, qos in dict.fromkeys((*printed, *cells)):
        row, cell = thesis_tables.row(scenario, ms, qos), cells.get((ms, qos))
        for metric in METRICS:
            fit = standing(measured.run.parameters, metric, ms, qos) if measured and cell else ""
            rows.append(TableRow(metric, ms, qos, row, cell, fit))
    return Table(rows[0].printed.table if rows else "", measured, rows)


def csv_rows(shown: Tables) -> Iterator[dict[str, object]]:
    """Yield the rows of tables.csv."""
    for scenario, by_fidelity in shown:
        for fidelity, table in by_fidelity.items():
            run = table.measured.run if table.measured else None
            for row in table.rows:
                cell, metric = row.cell, row.metric
                names = {"mean_us": "avg", **{f"{name}_us": name for name in QUANTILES}}
                found = {head: cell.interval(f"{metric}.{name}") if cell else None for head, name in names.items()}
                mean, *quantiles = (spread(head, value) for head, value in found.items())
                yield {
                    "table": table.number,
                    "scenario": scenario,
                    "fidelity": fidelity,
                    "run_id": " ".join(table.measured.run_ids) if table.measured else "",
                    "valid": "" if run is None else "yes" if run.valid else "no",
                    "interval_ms": f"{row.interval_ms:g}",
                    "qos": row.qos,
                    "metric": metric,
                    "sent": cell.sent if cell else "",
                    "answered": cell.answered if cell else "",
                    "lost_by": cell.causes if cell else "",
                    "standing": row.standing,
                    "published_outcome": row.printed.words,
                    **{
                        f"published_{name}_us": number(row.printed.figure(metric, name))
                        for name in ("min", "avg", "max")
                    },
                    **{f"{name}_us": number(cell.statistic(metric, name) if cell else None) for name in ("min", "max")},
                    **mean,
                    **spread("difference_us", row.difference),
                    **{key: text for quantile in quantiles for key, text in quantile.items()},
                }
