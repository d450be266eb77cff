"""Published and measured side by side: the rows of tables 5.2 to 5.9, and of scenarios the thesis does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from looplab.experiments.loop.report import published
from looplab.experiments.loop.report.cells import Cell
from looplab.experiments.loop.report.claims import Measured
from looplab.experiments.loop.report.published import PublishedRow
from looplab.report.statistics import Interval

METRICS = ("T", "O", "R")


@dataclass(frozen=True)
class Row:
    """One metric of one cell: what was printed (None: nothing) and what was measured (None: no such cell)."""

    metric: str
    interval_ms: float
    qos: int
    printed: PublishedRow | None
    cell: Cell | None

    def printed_us(self, statistic: str) -> float | None:
        return self.printed.figure(self.metric, statistic) if self.printed else None

    @property
    def printed_outcome(self) -> str:
        """What stands where the thesis prints no figures: loss, connection lost."""
        return self.printed.outcome if self.printed and self.printed.outcome != "answered" else ""

    @property
    def slip(self) -> str:
        return self.printed.slip(self.metric) if self.printed else ""

    @property
    def mean(self) -> Interval | None:
        return self.cell.mean.get(self.metric) if self.cell else None

    def quantile(self, name: str) -> Interval | None:
        return self.cell.quantiles.get(self.metric, {}).get(name) if self.cell else None

    def extreme_us(self, name: str) -> float | None:
        """min or max of what was measured."""
        if self.cell is None or self.cell.measured == 0:
            return None
        values = self.cell.latency_us[self.metric]
        return float(values.min() if name == "min" else values.max())

    @property
    def difference(self) -> Interval | None:
        """Measured minus printed mean; the printed one is taken as exact, its spread is not known."""
        printed, mean = self.printed_us("avg"), self.mean
        if printed is None or mean is None:
            return None
        return Interval(mean.estimate - printed, mean.low - printed, mean.high - printed)


@dataclass(frozen=True)
class Table:
    """One scenario at one fidelity; `number` is the thesis's table, "" where it has none."""

    number: str
    scenario: str
    measured: Measured | None
    rows: Sequence[Row]

    @property
    def waited(self) -> bool:
        """Whether in any cell a request waited for the robot to be done with earlier ones."""
        return any(row.cell is not None and row.cell.robot_free_us for row in self.rows)


def table(scenario: str, measured: Measured | None) -> Table:
    """All cells that were printed or measured, in the thesis's order first."""
    printed = [row for rows in published.tables().values() for row in rows if row.scenario == scenario]
    cells = dict(measured.cells) if measured else {}
    rows: list[Row] = []
    for line in printed:
        rows += _rows(line.interval_ms, line.qos, line, cells.pop((line.interval_ms, line.qos), None))
    for (interval_ms, qos), cell in cells.items():
        rows += _rows(interval_ms, qos, None, cell)
    return Table(printed[0].table if printed else "", scenario, measured, rows)


def _rows(interval_ms: float, qos: int, printed: PublishedRow | None, cell: Cell | None) -> Iterator[Row]:
    for metric in METRICS:
        yield Row(metric, interval_ms, qos, printed, cell)
