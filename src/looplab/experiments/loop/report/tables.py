"""Published and measured side by side: the rows of tables 5.2 to 5.9, and of scenarios the thesis does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looplab.experiments.loop.document import robot_free_us
from looplab.experiments.loop.fitted import fitted, standing
from looplab.experiments.loop.losses import CAUSES
from looplab.experiments.loop.report import MeasuredLoop, cells_of, published
from looplab.experiments.loop.report.published import PublishedRow
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import Interval

METRICS = ("T", "O", "R")


@dataclass(frozen=True)
class Row:
    """One metric of one cell: what was printed (None: nothing) and what was measured (None: no such cell)."""

    metric: str
    interval_ms: float
    qos: int
    printed: PublishedRow | None
    cell: MeasuredLoop | None
    parameters: Mapping[str, Any]

    @property
    def standing(self) -> str:
        """ "fitted" or "prediction" if a fitted constant is behind the measured figure, else ""."""
        return standing(self.parameters, self.metric, self.interval_ms, self.qos) if self.cell else ""

    @property
    def lost_by(self) -> str:
        """The causes of the cell's lost messages in words, "" if it has none or is of a run that does not know them."""
        found = self.cell.lost_by if self.cell else {}
        return ", ".join(f"{found[cause]} {cause.replace('_', ' ')}" for cause in CAUSES if found.get(cause))

    @property
    def response_us(self) -> Mapping[str, Any]:
        """Response of every message sent; a null is infinite. {} if run.json has none."""
        return self.cell.document.get("response_us", {}) if self.cell else {}

    def printed_us(self, statistic: str) -> float | None:
        return self.printed.figure(self.metric, statistic) if self.printed else None

    @property
    def printed_outcome(self) -> str:
        """The words in place of figures that the thesis does not print: loss, connection lost."""
        return self.printed.outcome if self.printed and self.printed.outcome != "answered" else ""

    @property
    def slip(self) -> str:
        return self.printed.slip(self.metric) if self.printed else ""

    @property
    def mean(self) -> Interval | None:
        return self.cell.mean(self.metric) if self.cell else None

    def quantile(self, name: str) -> Interval | None:
        return self.cell.quantile(self.metric, name) if self.cell else None

    def extreme_us(self, name: str) -> float | None:
        """Return the measured "min" or "max"."""
        return self.cell.statistic(self.metric, name) if self.cell else None

    @property
    def robot_free_us(self) -> dict[str, Any]:
        """R without queueing at the robot, {} if no request queued."""
        return robot_free_us(self.cell.document) if self.cell else {}

    @property
    def difference(self) -> Interval | None:
        """Measured minus printed mean; the printed one is taken as exact, its spread is not known."""
        printed, mean = self.printed_us("avg"), self.mean
        if printed is None or mean is None:
            return None
        return Interval(mean.estimate - printed, mean.low - printed, mean.high - printed)


@dataclass(frozen=True)
class Table:
    """One scenario at one fidelity; `number` is the thesis's table, "" if it has none."""

    number: str
    measured: Measured | None
    rows: Sequence[Row]

    @property
    def fitted(self) -> Sequence[str]:
        """What was fitted of all that its figures depend on, a sentence each."""
        return [str(constant) for constant in fitted(self.measured.run.parameters)] if self.measured else []

    @property
    def responses(self) -> bool:
        """Whether any cell knows the response of its messages."""
        return any(row.response_us for row in self.rows)

    @property
    def waited(self) -> bool:
        """Whether in any cell a request queued at the robot."""
        return any(row.robot_free_us for row in self.rows)


def tables(runs: Mapping[str, Runs]) -> list[tuple[str, Mapping[str, Table]]]:
    """Return the tables of every scenario of the thesis, then of every other that was run, by fidelity."""
    named = dict.fromkeys(row.scenario for row in published.rows())
    others = sorted({scenario for held in runs.values() for scenario in held} - set(named))
    found: list[tuple[str, Mapping[str, Table]]] = []
    for scenario in [*named, *others]:
        held = {fidelity: table(scenario, runs[fidelity][scenario]) for fidelity in _with(scenario, runs)}
        found.append((scenario, held or {"": table(scenario, None)}))
    return found


def _with(scenario: str, runs: Mapping[str, Runs]) -> list[str]:
    """Return the fidelities that have a run of `scenario`, thesis first."""
    return sorted((fidelity for fidelity, held in runs.items() if scenario in held), reverse=True)


def table(scenario: str, measured: Measured | None) -> Table:
    """Return all cells that were printed or measured, in the thesis's order first."""
    printed = [row for row in published.rows() if row.scenario == scenario]
    cells = dict(cells_of(measured)) if measured else {}
    shown: list[tuple[float, int, PublishedRow | None, MeasuredLoop | None]] = [
        (line.interval_ms, line.qos, line, cells.pop((line.interval_ms, line.qos), None)) for line in printed
    ]
    shown += [(cell.interval_ms, cell.qos, None, cell) for cell in cells.values()]
    parameters = measured.run.parameters if measured else {}
    rows = [Row(metric, *what, parameters) for what in shown for metric in METRICS]
    return Table(printed[0].table if printed else "", measured, rows)
