"""What Prometheus gets of the loop beside its spec: parts of O while a cell is measured, bridge and robot."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from looplab.experiments.loop import LoopCell, ledger
from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS
from looplab.metrics.cells import LiveCell
from looplab.metrics.text_format import Texts, line
from looplab.spec.cell import Cell
from looplab.spec.columns import ABSENT

FAMILIES = {
    "lab_bridge_online": ("gauge", "1 while the bridge says it is online."),
    "lab_robot_online": ("gauge", "1 while the bridge says the robot is online."),
    "lab_bridge_events_total": ("counter", "What the bridge counts, by event."),
}


class Live(LiveCell):
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

    def _render(self) -> dict[str, str]:
        means = zip(ledger.NAMES, self._sums_ns, strict=True)
        made_of = "loop_overhead_part_seconds"
        parts = (line(made_of, {**self.labels, "part": part}, total / self._known / 1e9) for part, total in means)
        beyond = "loop_messages_beyond_interval_total"
        return {
            **super()._render(),
            beyond: line(beyond, self.labels, self._beyond),
            made_of: "".join(parts) if self._known else "",
        }


def _online(family: str) -> Callable[[bytes], Texts]:
    return lambda payload: {family: line(family, {}, int(payload == ONLINE))}


def _events(payload: bytes) -> Texts:
    family = "lab_bridge_events_total"
    try:
        counts = json.loads(payload)["counts"]
        return {family: "".join(line(family, {"event": str(name)}, int(count)) for name, count in counts.items())}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


# What is retained at the broker, as sample lines.
BROKER_TOPICS: Mapping[str, Callable[[bytes], Texts]] = {
    TOPIC_BRIDGE_STATUS: _online("lab_bridge_online"),
    TOPIC_ROBOT_STATUS: _online("lab_robot_online"),
    TOPIC_BRIDGE_INFO: _events,
}
