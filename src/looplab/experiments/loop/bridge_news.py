"""What the bridge publishes about itself and its robot during a run: retained under lab/, kept as it changes.

From it follows when the bridge was away, and why: by its last will, its return and its own report.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any

from looplab.experiments.loop.bridge.robot_answers import NOISE
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
# Changes of status that a run keeps; a flood of them must not fill memory and run.json.
MOST_CHANGES = 1000
# A run keeps so many of the newest reports of bridges: enough to see whether there are two bridges.
MOST_REPORTS = 20
# Why the bridge was away.
NETWORK = "the same bridge came back: the network between it and the broker was cut"
BROKER_RESTARTED = "the broker was restarted"
RESTARTED = "the bridge restarted, its machine did not"
REBOOTED = "its machine rebooted, and the bridge restarted"
AWAY = "it had not come back when the run ended"


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
        self._at_start: dict[str, Any] = {}
        self._begun_ns = 0
        self._token, self._requests = token.encode(), requests
        self._returns_ns: list[int] = []

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
        before = self.info()
        self.retained[TOPIC_BRIDGE_INFO] = payload
        self.reports.append(payload)
        now = self.info()
        returned = before and any(before.get(name) != now.get(name) for name in ("disconnects", "instance"))
        if returned and len(self._returns_ns) < MOST_CHANGES:
            self._returns_ns.append(perf_counter_ns())

    def _take_status(self, name: str, payload: bytes) -> None:
        changed = self.retained.get(name) != payload
        self.retained[name] = payload
        if changed and len(self.changes) < MOST_CHANGES:
            change = {"at_ns": perf_counter_ns(), "topic": name, "status": payload.decode()}
            info = self.info() if name == TOPIC_BRIDGE_STATUS else {}
            self.changes.append({**change, **{key: str(info[key]) for key in ("instance", "boot") if key in info}})

    def returns_ns(self) -> list[int]:
        """Return when the bridge was there again after it had lost the broker; NEVER_NS if it is still away."""
        ends = [absence["to_ns"] for absence in absences(self.changes)]
        return [*self._returns_ns, *(NEVER_NS if end_ns is None else end_ns for end_ns in ends)]

    def info(self) -> dict[str, Any]:
        """Return what the bridge last reported of itself."""
        return bridge_info(self.retained)

    def begin(self) -> None:
        """Note what the bridge reports before the first message."""
        self._at_start = self.info()
        self._begun_ns = perf_counter_ns()

    def losses(self, *, broker_restarted: bool) -> list[str]:
        """Return why the bridge had no connection to the broker, for each time since the first message."""
        away = [one for one in absences(self.changes, broker_restarted=broker_restarted) if self._in_run(one)]
        info = self.info()
        known = sum(one["cause"] in (NETWORK, BROKER_RESTARTED) for one in away)
        # The bridge itself knows better than its absence shows what ended its last connection.
        own = str(info.get("last_loss") or NETWORK)
        causes = [own if one["cause"] == NETWORK else one["cause"] for one in away]
        return [*causes, *[BROKER_RESTARTED if broker_restarted else own] * unnoticed(self._at_start, info, known)]

    def _in_run(self, absence: Mapping[str, Any]) -> bool:
        return absence["to_ns"] is None or bool(absence["to_ns"] > self._begun_ns)

    def document(self, disconnects: int, *, broker_restarted: bool) -> dict[str, Any]:
        """Return what run.json records of the bridge; `disconnects` are those that the controller noticed itself."""
        away = absences(self.changes, broker_restarted=broker_restarted)
        known = disconnects + sum(absence["cause"] in (NETWORK, BROKER_RESTARTED) for absence in away)
        return {
            "events": self.changes,
            "absences": away,
            "reconnects": unnoticed(self._at_start, self.info(), known),
            "unreadable": noise(self._at_start, self.info()),
            "bridge": self.info(),
        }


def absences(events: Iterable[Mapping[str, Any]], *, broker_restarted: bool = False) -> list[dict[str, Any]]:
    """Return one entry for each time the bridge was away: `from_ns`, `to_ns` (monotonic, None: not back), `cause`.

    `events` are the run's changes of retained statuses in order; those of TOPIC_BRIDGE_STATUS hold `instance` and
    `boot` of the bridge as known at that moment. The broker notices a lost bridge some seconds late. A bridge that
    stayed the same lost its network, unless the run knows that its broker was restarted.
    """
    times_away: list[dict[str, Any]] = []
    before: Mapping[str, Any] = {}
    for event in (one for one in events if one["topic"] == TOPIC_BRIDGE_STATUS):
        is_away = bool(times_away) and times_away[-1]["to_ns"] is None
        if event["status"] == ONLINE.decode():
            if is_away:
                cause = _cause(before, event)
                cause = BROKER_RESTARTED if broker_restarted and cause == NETWORK else cause
                times_away[-1].update(to_ns=event["at_ns"], cause=cause)
            before = event
        elif before and not is_away:
            times_away.append({"from_ns": event["at_ns"], "to_ns": None, "cause": AWAY})
    return times_away


def _cause(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if before.get("instance") == after.get("instance"):
        return NETWORK
    return RESTARTED if before.get("boot") == after.get("boot") else REBOOTED


def unnoticed(before: Mapping[str, Any], after: Mapping[str, Any], known: int) -> int:
    """Return how often the bridge reconnected, beyond the `known` times.

    `before` and `after` are its own reports at the start and the end of the run.
    """
    first, last = before.get("disconnects"), after.get("disconnects")
    if before.get("instance") != after.get("instance") or not (isinstance(first, int) and isinstance(last, int)):
        return 0
    return max(0, last - first - known)


def noise(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Return how often unreadable bytes came from the robot's port, by two reports of one bridge."""
    first, last = ((info.get("robot_faults") or {}).get(NOISE, 0) for info in (before, after))
    return max(0, last - first) if before.get("instance") == after.get("instance") else int(last)
