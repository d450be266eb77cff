"""What the bridge publishes about itself and its robot during a run: retained under lab/, kept as it changes."""

from collections import deque
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from looplab.experiments.loop import readiness
from looplab.experiments.loop.losses import NEVER_NS, TOPIC_BRIDGE_MERGED, parse_merged
from looplab.experiments.loop.outages import NETWORK, absences, unnoticed
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
)

LONGEST_BYTES = 10_000
# Changes of status that a run keeps; a flood of them must not fill memory and run.json.
MOST_CHANGES = 1000
# Of what bridges report of themselves, the newest: enough to see whether there are two.
MOST_REPORTS = 20


class BridgeNews:
    """The last payload of each topic, the changes of status, what does not belong there.

    `merged` holds those of the `requests` of the run `token` whose answers the bridge took for another's.
    """

    def __init__(self, token: str, requests: int) -> None:
        self.merged: set[int] = set()
        self.retained: dict[str, bytes] = {}
        self.changes: list[dict[str, Any]] = []
        self.reports: deque[bytes] = deque(maxlen=MOST_REPORTS)
        self.foreign = 0
        self.malformed = 0
        self._before: dict[str, Any] = {}
        self._token, self._requests = token.encode(), requests
        self._returns_ns: list[int] = []

    def take(self, topic: bytes, payload: bytes) -> None:
        """Keep what arrived on any topic but the answers'."""
        name = topic.decode("ascii", "replace")
        if name == TOPIC_BRIDGE_MERGED:
            self._take_merged(payload)
            return
        if name not in (TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_INFO):
            self.foreign += 1
            return
        if len(payload) > LONGEST_BYTES or (name != TOPIC_BRIDGE_INFO and payload not in (ONLINE, OFFLINE)):
            self.malformed += 1
            return
        changed, before = self.retained.get(name) != payload, self.info()
        self.retained[name] = payload
        if name == TOPIC_BRIDGE_INFO:
            self.reports.append(payload)
            self._note_return(before)
        elif changed and len(self.changes) < MOST_CHANGES:
            change = {"at_ns": perf_counter_ns(), "topic": name, "status": payload.decode()}
            if name == TOPIC_BRIDGE_STATUS:
                info = self.info()
                change.update({key: str(info[key]) for key in ("instance", "boot") if key in info})
            self.changes.append(change)

    def returns_ns(self) -> list[int]:
        """Return when the bridge was there again after it had lost the broker; NEVER_NS if it is still away."""
        ends = [absence["to_ns"] for absence in absences(self.changes)]
        return [*self._returns_ns, *(NEVER_NS if end_ns is None else end_ns for end_ns in ends)]

    def _take_merged(self, payload: bytes) -> None:
        found = parse_merged(payload) if len(payload) <= LONGEST_BYTES else None
        if found is None:
            self.malformed += 1
        elif found[0] == self._token:
            self.merged.update(sequence for sequence in found[1] if sequence < self._requests)

    def _note_return(self, before: Mapping[str, Any]) -> None:
        """Note that a bridge reports itself that was connected once more than `before`."""
        if before and len(self._returns_ns) < MOST_CHANGES:
            now = self.info()
            if any(before.get(name) != now.get(name) for name in ("disconnects", "instance")):
                self._returns_ns.append(perf_counter_ns())

    def info(self) -> dict[str, Any]:
        """Return what the bridge last reported of itself."""
        return readiness.bridge_info(self.retained)

    def begin(self) -> None:
        """Note what the bridge reports before the first message."""
        self._before = self.info()

    def document(self, disconnects: int) -> dict[str, Any]:
        """Return what run.json records of the bridge; `disconnects` are those that the controller noticed itself."""
        away = absences(self.changes)
        noticed = disconnects + sum(absence["cause"] == NETWORK for absence in away)
        return {
            "events": self.changes,
            "absences": away,
            "reconnects": unnoticed(self._before, self.info(), noticed),
            "bridge": self.info(),
        }
