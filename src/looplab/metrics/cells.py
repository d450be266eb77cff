"""Cells of the running run on a page for Prometheus, as their spec says."""

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from looplab.metrics.distributions import Distribution, bounds_s
from looplab.metrics.page import FIGURE, Page
from looplab.run.document import outcomes_by_fate
from looplab.spec.cell import Cell
from looplab.spec.columns import ABSENT, Count, Figure, Latency

LATENESS = "send lateness"


def shown(cell: type[Cell]) -> list[Latency]:
    """Return the latencies that Prometheus gets, each with its label `metric`."""
    return [one for one in cell.latencies() if one.metric is not None]


def figures(cell: Cell) -> Iterator[tuple[str, float]]:
    """Yield the name and value of each figure and further count of a cell that Prometheus gets."""
    own: list[Count | Figure] = [one for one in type(cell).counts() if not (one.outcome or one.total)]
    for one in [*own, *type(cell).figures()]:
        if one.metric is not None and (value := one.of(cell)) is not None:
            yield one.name, value


class LiveCell:
    """One cell of the running run: its messages by outcome, its latencies, and when it changed last."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        own = type(cell)
        self.cell, self.labels = cell, {**labels, "cell": cell.text}
        self.sent = 0
        self.changed_ns = 0
        self.outcomes = dict.fromkeys(own.outcomes(), 0)
        self.latencies = {one: Distribution(bounds_s(*one.decades)) for one in shown(own) if one.made}
        self.lateness = Distribution()
        self._fates = outcomes_by_fate(own)

    def add_sent(self, lateness_ns: int) -> None:
        """Count one message that left, so much later than due."""
        self.sent += 1
        self.lateness.add(lateness_ns)
        self.changed_ns = perf_counter_ns()

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        """Count one message whose fate is known; `columns` are those of the live samples."""
        self.outcomes[self._fates[fate]] += 1
        self.changed_ns = perf_counter_ns()
        if fate in ("answered", "late"):
            for latency, distribution in self.latencies.items():
                if latency.made and (value := latency.made(columns, row)) != ABSENT:
                    distribution.add(value)

    def more_figures(self) -> Iterator[tuple[str, float]]:
        """Yield name and value of what the cell shows beside counts and latencies."""
        yield from ()

    def add_to(self, page: Page) -> None:
        """Add what is known of the cell to the page."""
        add_counts(page, self.labels, self.sent, self.outcomes)
        for latency, distribution in self.latencies.items():
            page.add_latency({**self.labels, "metric": str(latency.metric)}, distribution)
        page.add_latency({**self.labels, "metric": LATENESS}, self.lateness)
        for name, value in self.more_figures():
            page.add(FIGURE, {**self.labels, "figure": name}, value)


def add_counts(page: Page, labels: Mapping[str, str], sent: int, outcomes: Mapping[str, int]) -> None:
    """Add a cell's messages by outcome."""
    page.add("lab_messages_sent_total", labels, sent)
    for outcome, count in outcomes.items():
        page.add("lab_messages_total", {**labels, "outcome": outcome}, count)


def add_document(page: Page, labels: Mapping[str, str], cell: Cell) -> None:
    """Add a cell as run.json has it."""
    outcomes = {outcome: count.of(cell) for outcome, count in cell.outcomes().items()}
    add_counts(page, labels, cell.total().of(cell), outcomes)
    for name, value in figures(cell):
        page.add(FIGURE, {**labels, "figure": name}, value)
