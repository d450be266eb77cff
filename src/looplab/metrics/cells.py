"""Cells of the running run on a page for Prometheus, as their spec says."""

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from looplab.metrics.distributions import Distribution, bounds_s
from looplab.metrics.page import FIGURE, Page
from looplab.run.document import outcomes_by_fate
from looplab.spec.cell import Cell
from looplab.spec.columns import ABSENT, Latency

LATENESS = "send lateness"


def shown(cell: type[Cell]) -> list[Latency]:
    """Return the latencies that Prometheus gets, each with its label `metric`."""
    return [one for one in cell.latencies() if one.metric is not None]


class ShownCell:
    """One cell on a page: its messages by outcome, its latencies by metric, and when it changed last."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        self.cell, self.labels = cell, {**labels, "cell": str(cell)}
        self.sent = 0
        self.changed_ns = perf_counter_ns()
        self.outcomes = dict.fromkeys(cell.outcomes(), 0)
        self.latencies: dict[str, Distribution] = {}

    def more_figures(self) -> Iterator[tuple[str, float]]:
        """Yield name and value of what the cell shows beside counts and latencies."""
        yield from ()

    def add_to(self, page: Page) -> None:
        """Add what is known of the cell to the page."""
        page.add("lab_messages_sent_total", self.labels, self.sent)
        for outcome, count in self.outcomes.items():
            page.add("lab_messages_total", {**self.labels, "outcome": outcome}, count)
        for name, value in self.more_figures():
            page.add(FIGURE, {**self.labels, "figure": name}, value)
        for metric, latency in self.latencies.items():
            page.add_latency({**self.labels, "metric": metric}, latency)


class LiveCell(ShownCell):
    """One cell of a run with live rows, which are counted as they come."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        super().__init__(cell, labels)
        self._fates = outcomes_by_fate(type(cell))
        columns = {str(one.metric): one for one in shown(type(cell))}
        self._made = {metric: one.made for metric, one in columns.items() if one.made}
        self.latencies = {metric: Distribution(bounds_s(*columns[metric].decades)) for metric in self._made}
        self.latencies[LATENESS] = Distribution()

    def add_sent(self, lateness_ns: int) -> None:
        """Count one message that left, so much later than due."""
        self.sent += 1
        self.latencies[LATENESS].add(lateness_ns)
        self.changed_ns = perf_counter_ns()

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        """Count one message whose fate is known; `columns` are those of the live samples."""
        self.outcomes[self._fates[fate]] += 1
        self.changed_ns = perf_counter_ns()
        if fate in ("answered", "late"):
            for metric, made in self._made.items():
                if (value := made(columns, row)) != ABSENT:
                    self.latencies[metric].add(value)


class StatedCell(ShownCell):
    """One cell as the state of a run without live rows has it, which is as run.json will."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        super().__init__(cell, labels)
        self.sent = cell.total().of(cell)
        self.outcomes = {outcome: count.of(cell) for outcome, count in cell.outcomes().items()}

    def more_figures(self) -> Iterator[tuple[str, float]]:
        """Yield the figures of its spec that are known."""
        for one in self.cell.figures():
            if one.metric and (value := one.of(self.cell)) is not None:
                yield one.name, value
