"""What Prometheus gets of the loop beside its spec: parts of O while a cell is measured, bridge and robot."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from looplab.experiments.loop import LoopCell, ledger
from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS
from looplab.experiments.loop.readiness import bridge_info
from looplab.metrics.cells import LiveCell
from looplab.metrics.page import Page
from looplab.spec.cell import Cell
from looplab.spec.columns import ABSENT

BEYOND = "beyond interval"


class LiveLoopCell(LiveCell):
    """One cell of the running run, with its deadline misses and the mean parts of O."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        super().__init__(cell, labels)
        assert isinstance(cell, LoopCell)
        self._interval_ns = round(cell.interval_ms * 1e6)
        self._known, self._sums_ns, self._beyond = 0, [0] * len(ledger.NAMES), 0

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        super().settle_row(fate, columns, row)
        if fate not in ("answered", "late"):
            self._beyond += 1
            return
        self._beyond += columns["received_ns"][row] - columns["due_ns"][row] > self._interval_ns
        parts = ledger.of_row(columns, row)
        # The last rows of a scrape have gaps: the bridge reports an answer's parts with the next one.
        if ABSENT not in parts:
            self._known += 1
            self._sums_ns = [total + part for total, part in zip(self._sums_ns, parts, strict=True)]

    def more_figures(self) -> Iterator[tuple[str, float]]:
        """Yield how many messages had no answer when the next was due, and the mean parts of O in us."""
        yield BEYOND, self._beyond
        if self._known:
            for part, total in zip(ledger.NAMES, self._sums_ns, strict=True):
                yield f"O: {part}", total / self._known / 1e3


def _online(family: str) -> Callable[[Page, bytes], None]:
    return lambda page, payload: page.add(family, {}, payload == ONLINE)


def _add_events(page: Page, payload: bytes) -> None:
    counts = bridge_info(payload).get("counts")
    for name, count in counts.items() if isinstance(counts, dict) else ():
        page.add("lab_bridge_events_total", {"event": name}, count)


# What is retained at the broker.
BROKER_TOPICS: Mapping[str, Callable[[Page, bytes], None]] = {
    TOPIC_BRIDGE_STATUS: _online("lab_bridge_online"),
    TOPIC_ROBOT_STATUS: _online("lab_robot_online"),
    TOPIC_BRIDGE_INFO: _add_events,
}


# The name that the exporter knows it by.
Live = LiveLoopCell
