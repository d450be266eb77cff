"""What the bridge publishes about itself and its robot during a run: retained under lab/, kept as it changes.

From it follows when the bridge was away, and why: by its last will and by what it reports at its return.
"""

from collections import deque
from time import perf_counter_ns
from typing import Any

from looplab.experiments.loop.losses import NEVER_NS
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_MERGED,
    TOPIC_BRIDGE_STATUS,
    TOPIC_ROBOT_STATUS,
    parse_merged,
)
from looplab.experiments.loop.readiness import bridge_info

LONGEST_BYTES = 10_000
# Changes of status and absences that a run keeps; a flood of them must not fill memory and run.json.
MOST_CHANGES = 1000
# A run keeps the names of so many bridges: enough to see whether there are two.
MOST_INSTANCES = 20
# Why the bridge was away.
NETWORK = "the same bridge came back: the network between it and the broker was cut"
BROKER_RESTARTED = "the broker was restarted"
RESTARTED = "the bridge restarted, its machine did not"
REBOOTED = "its machine rebooted, and the bridge restarted"
AWAY = "it had not come back when the run ended"


class BridgeNews:
    """The last `status` of bridge and robot by topic, what the bridge last reported of itself, the changes of status.

    `merged` holds those of the `requests` of the run `token` whose answers the bridge took for another's.
    `absences` has an entry for each time the bridge was away: `from_ns`, `to_ns` (monotonic) and `cause`. The broker
    notices a lost bridge some seconds late: `from_ns` is None if it did not, `to_ns` if the bridge has not come back.
    """

    def __init__(self, token: str, requests: int) -> None:
        self.merged: set[int] = set()
        self.status: dict[str, bytes] = {}
        self.info: dict[str, Any] = {}
        self.changes: list[dict[str, Any]] = []
        self.absences: deque[dict[str, Any]] = deque(maxlen=MOST_CHANGES)
        self.instances: set[str] = set()
        self.foreign = 0
        self.malformed = 0
        self._token, self._requests = token.encode(), requests

    def take(self, topic: bytes, payload: bytes) -> None:
        """Keep what arrived on any topic but the answers'."""
        name = topic.decode("ascii", "replace")
        if name not in (TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_MERGED):
            self.foreign += 1
        elif len(payload) > LONGEST_BYTES:
            self.malformed += 1
        elif name == TOPIC_BRIDGE_MERGED:
            self._take_merged(payload)
        elif name == TOPIC_BRIDGE_INFO:
            self._take_info(payload)
        elif payload in (ONLINE, OFFLINE):
            self._take_status(name, payload)
        else:
            self.malformed += 1

    def _take_merged(self, payload: bytes) -> None:
        report = parse_merged(payload)
        if report is None:
            self.malformed += 1
        elif report[0] == self._token:
            self.merged.update(sequence for sequence in report[1] if sequence < self._requests)

    def _take_info(self, payload: bytes) -> None:
        """Keep the report; note the return of a bridge that was connected once more than before."""
        before, self.info = self.info, bridge_info(payload)
        now = self.info
        if "instance" in now and len(self.instances) < MOST_INSTANCES:
            self.instances.add(str(now["instance"]))
        same = {name: before.get(name) == now.get(name) for name in ("instance", "boot", "disconnects")}
        if before and not (same["instance"] and same["disconnects"]):
            self._note_return(NETWORK if same["instance"] else RESTARTED if same["boot"] else REBOOTED)

    def _take_status(self, name: str, payload: bytes) -> None:
        before, self.status[name] = self.status.get(name), payload
        if before == payload or len(self.changes) >= MOST_CHANGES:
            return
        change = {"at_ns": perf_counter_ns(), "topic": name, "status": payload.decode()}
        self.changes.append(change)
        if name == TOPIC_BRIDGE_STATUS and payload == ONLINE and self._is_away:
            self._note_return(NETWORK)
        elif name == TOPIC_BRIDGE_STATUS and before == ONLINE:
            self.absences.append({"from_ns": change["at_ns"], "to_ns": None, "cause": AWAY})

    @property
    def _is_away(self) -> bool:
        return bool(self.absences) and self.absences[-1]["to_ns"] is None

    def _note_return(self, cause: str) -> None:
        if not self._is_away:
            self.absences.append({"from_ns": None})
        self.absences[-1].update(to_ns=perf_counter_ns(), cause=cause)

    def returns_ns(self) -> list[int]:
        """Return when the bridge was there again after it had lost the broker; NEVER_NS if it is still away."""
        return [absence["to_ns"] or NEVER_NS for absence in self.absences]

    def begin(self) -> None:
        """Forget absences from before the first message."""
        self.absences.clear()

    def losses(self, *, broker_restarted: bool) -> list[str]:
        """Return why the bridge had no connection to the broker, for each time since the first message."""
        # The bridge itself knows better than its absence shows what ended its last connection.
        own = str(self.info.get("last_loss") or NETWORK)
        causes = [absence["cause"] for absence in self._absences(broker_restarted)]
        return [own if cause == NETWORK else cause for cause in causes]

    def document(self, *, broker_restarted: bool) -> dict[str, Any]:
        """Return what run.json records of the bridge."""
        return {"events": self.changes, "absences": self._absences(broker_restarted), "bridge": self.info}

    def _absences(self, broker_restarted: bool) -> list[dict[str, Any]]:
        """Return the absences; a bridge that stayed the same lost its network, unless its broker was restarted."""
        network = BROKER_RESTARTED if broker_restarted else NETWORK
        return [{**one, "cause": network if one["cause"] == NETWORK else one["cause"]} for one in self.absences]
