"""When the bridge was away during a run and why, and which late answers waited elsewhere than at the robot.

The bridge's last will, its return and its own report show an absence. A cut too short for the broker to notice shows in
answers that the robot gave in time and that still came late.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from looplab.experiments.loop.protocol import OFFLINE, ONLINE, TOPIC_BRIDGE_STATUS
from looplab.run.accounting import Columns
from looplab.run.samples import LATE

NETWORK = "the same bridge came back: the network between it and the broker was cut"
RESTARTED = "the bridge restarted, its machine did not"
REBOOTED = "its machine rebooted, and the bridge restarted"
AWAY = "it had not come back when the run ended"


def absences(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each time the bridge was away: `from_ns`, `to_ns` (monotonic, None: not back), `cause`.

    `events` are the run's changes of retained statuses in order; those of TOPIC_BRIDGE_STATUS hold `instance` and
    `boot` of the bridge as known at that moment. The broker notices a lost bridge some seconds late.
    """
    found: list[dict[str, Any]] = []
    before: Mapping[str, Any] = {}
    away: dict[str, Any] | None = None
    for event in events:
        if event["topic"] != TOPIC_BRIDGE_STATUS:
            continue
        if event["status"] == OFFLINE.decode() and away is None and before:
            away = {"from_ns": event["at_ns"], "to_ns": None, "cause": AWAY}
            found.append(away)
        elif event["status"] == ONLINE.decode():
            if away is not None:
                away.update(to_ns=event["at_ns"], cause=_cause(before, event))
                away = None
            before = event
    return found


def _cause(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if before.get("instance") == after.get("instance"):
        return NETWORK
    return RESTARTED if before.get("boot") == after.get("boot") else REBOOTED


def unnoticed(before: Mapping[str, Any], after: Mapping[str, Any], told: int) -> int:
    """Return how often the bridge reconnected, beyond the `told` times that are known otherwise.

    `before` and `after` are its own reports at the start and the end of the run.
    """
    first, last = before.get("disconnects"), after.get("disconnects")
    if before.get("instance") != after.get("instance") or not (isinstance(first, int) and isinstance(last, int)):
        return 0
    return max(0, last - first - told)


def delayed(columns: Columns, rows: range) -> dict[str, float]:
    """Return the late answers with R below half of T: their number `n`, the longest T and R in us; {} if none."""
    state, sent, received, robot = (columns[name] for name in ("state", "sent_ns", "received_ns", "robot_ns"))
    late = [(received[row] - sent[row], robot[row]) for row in rows if state[row] == LATE]
    waited = [(total_ns, robot_ns) for total_ns, robot_ns in late if 2 * robot_ns < total_ns]
    if not waited:
        return {}
    longest = (max(times) / 1000 for times in zip(*waited, strict=True))
    return {"n": len(waited), **dict(zip(("longest_T_us", "longest_R_us"), longest, strict=True))}
