"""Treatments of a run: what was wanted, what was found on the live processes, and whether they agree."""

from __future__ import annotations

import http.client
import json
import urllib.request
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Protocol

from looplab.experiments.loop.parameters import NO_LINK, Parameters

BROKER_COMMS = ("mosquitto",)
CONTROLLER_COMMS = ("lab-controller",)
BRIDGE_COMMS = ("lab-bridge",)
ROBOT_COMMS = ("robot",)
STRESS_COMMS = ("stress",)
FLOOD_COMMS = ("mqtt-stresser", "flood")
LINK_COMMS = ("lab-link",)

# Bridge, robot and link stand for what is elsewhere: where the kernel allows, the host's stress must not reach them.
FIFO_BRIDGE = 95
FIFO_ROBOT = 96
FIFO_LINK = 97
# Beside the loop's own; the published options make about 100 messages a second.
LEAST_FLOOD_PER_S = 20
FLOOD_SPAN_S = 10.0
VIRTUAL_ROBOT = "socket://robot:"
# The broker's listener with TLS (compose/mosquitto/lan); TCP_NODELAY is one setting for both.
TLS_PORT = 8883
FACTS_TIMEOUT_S = 20


@dataclass(frozen=True)
class Treatment:
    """One thing that was wanted and what was found; one that is not `required` never makes a run invalid."""

    what: str
    wanted: str
    found: str
    verified: bool
    required: bool = True
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Wanted(Protocol):
    """The parameters that say how the measured processes shall be: those of the loop, or of an experiment."""

    @property
    def apply_priority(self) -> bool: ...
    @property
    def priority_broker(self) -> int: ...
    @property
    def priority_controller(self) -> int: ...
    @property
    def tcp_nodelay(self) -> bool: ...
    @property
    def load(self) -> str: ...
    @property
    def broker_host(self) -> str: ...
    @property
    def broker_port(self) -> int: ...


class TreatmentsClient:
    """Asks the treatments service; `url` is its /facts."""

    def __init__(self, url: str) -> None:
        self._url = url

    def facts(self, parameters: Wanted, *, published: bool) -> dict[str, Any] | None:
        """Apply and look; None where the service does not answer (it is not part of this set-up)."""
        body = json.dumps(_question(parameters, published)).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=FACTS_TIMEOUT_S) as reply:
                result: dict[str, Any] = json.load(reply)
                return result
        except (OSError, ValueError, http.client.HTTPException):
            return None


def _question(parameters: Wanted, published: bool) -> dict[str, Any]:
    def role(comms: tuple[str, ...], fifo: int = 0) -> dict[str, Any]:
        return {"comm": list(comms), "fifo": fifo}

    apply = parameters.apply_priority
    question: dict[str, Any] = {
        "roles": {
            "broker": role(BROKER_COMMS, parameters.priority_broker if apply else 0),
            "controller": role(CONTROLLER_COMMS, parameters.priority_controller if apply else 0),
            "bridge": role(BRIDGE_COMMS, FIFO_BRIDGE),
            "robot": role(ROBOT_COMMS, FIFO_ROBOT),
            "stress": role(STRESS_COMMS),
            "flood": role(FLOOD_COMMS),
            "link": role(LINK_COMMS, FIFO_LINK),
        }
    }
    if published:
        question["published_from"] = f"{parameters.broker_host}:{parameters.broker_port}"
    return question


def judge(parameters: Parameters, looks: list[dict[str, Any] | None], bridge: dict[str, Any]) -> list[Treatment]:
    """Every treatment of a run from the looks taken before its first and after each of its cells.

    `looks` are the service's answers (None: it did not answer), `bridge` what the bridge says of itself.
    """
    good = [look for look in looks if look is not None]
    if len(good) < len(looks) or not good:
        return [Treatment("treatments service", "answers", "no answer", False, note="nothing could be verified")]
    found = [judge_policy(parameters, good, "broker", parameters.priority_broker)]
    found.append(judge_policy(parameters, good, "controller", parameters.priority_controller))
    for role, priority in (
        ("broker", parameters.priority_broker),
        ("controller", parameters.priority_controller),
    ):
        if priority:
            found += _permission(good, role, priority)
    found.append(judge_nodelay(parameters, good, "broker"))
    found.append(judge_nodelay(parameters, good, "controller"))
    found += _bridge(parameters, bridge)
    found += _isolation(good, bridge, emulated=parameters.link != NO_LINK)
    found.append(judge_load(parameters, good, "stress"))
    found.append(judge_load(parameters, good, "flood"))
    if parameters.load == "flood":
        found += _flood_rate(parameters, good)
    return found


def load_strength(parameters: Parameters, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """How hard the load was between two looks: CPU seconds consumed, messages a second at the broker."""
    seconds = (after["clock_ns"] - before["clock_ns"]) / 1e9
    strength: dict[str, Any] = {"seconds": round(seconds, 3)}
    for role in ("stress", "flood"):
        if parameters.load == role:
            strength[f"{role}_cpu_s"] = round(_cpu_s(after, role) - _cpu_s(before, role), 3)
    first, last = before.get("published"), after.get("published")
    # A broker that was restarted counts from nought again: there is no rate to tell.
    if first is not None and last is not None and last >= first:
        span_s = (after["published_clock_ns"] - before["published_clock_ns"]) / 1e9
        strength["broker_publish_per_s"] = round((last - first) / span_s, 1)
    return strength


def running(look: dict[str, Any] | None, role: str) -> bool:
    """Whether `look` saw a live process of `role`."""
    return look is not None and bool(look["roles"][role]["processes"])


def _cpu_s(look: dict[str, Any], role: str) -> float:
    return float(sum(process["cpu_ticks"] for process in look["roles"][role]["processes"])) / float(look["ticks_hz"])


def _policies(looks: list[dict[str, Any]], role: str) -> list[str]:
    """The distinct policies of all threads of `role` in all looks; "not running" where a look saw none."""
    policies = set()
    for look in looks:
        processes = look["roles"][role]["processes"]
        if not processes:
            policies.add("not running")
        for process in processes:
            policies.update(thread["scheduling"] for thread in process["threads"])
    return sorted(policies)


def _refusals(looks: list[dict[str, Any]], role: str) -> str:
    return "; ".join(sorted({why for look in looks for why in look["roles"][role]["refused"]}))


def judge_policy(parameters: Wanted, looks: list[dict[str, Any]], role: str, priority: int) -> Treatment:
    """Whether every thread of `role` ran under the policy that was wanted."""
    fifo = priority and parameters.apply_priority
    wanted = f"SCHED_FIFO {priority}" if fifo else "SCHED_OTHER"
    policies = _policies(looks, role)
    note = _refusals(looks, role)
    if note:
        note += " (see `./lab doctor`: real-time budget and SYS_NICE)"
    return Treatment(f"{role} scheduling policy", wanted, ", ".join(policies), policies == [wanted], note=note)


def _permission(looks: list[dict[str, Any]], role: str, priority: int) -> list[Treatment]:
    """What the published flags give: the right to ask for real-time priority, and no priority."""
    processes = [process for look in looks for process in look["roles"][role]["processes"]]
    limits = sorted({process["rtprio_limit"] for process in processes})
    limit_met = bool(limits) and all(limit == "unlimited" or int(limit) >= priority for limit in limits)
    capable = bool(processes) and all(process["sys_nice_bounding"] for process in processes)
    found = f"rtprio limit {', '.join(limits) or 'unknown'}; SYS_NICE {'given' if capable else 'not given'}"
    note = "" if limit_met else f"not applied: the engine refuses it or LAB_RTPRIO_{role.upper()} lowers it"
    return [
        Treatment(f"{role} may use real-time priority", "permitted", found, limit_met or capable),
        Treatment(f"{role} rtprio limit", str(priority), ", ".join(limits) or "unknown", limit_met, False, note),
    ]


def judge_nodelay(parameters: Wanted, looks: list[dict[str, Any]], role: str) -> Treatment:
    """Whether TCP_NODELAY was as wanted on every MQTT socket of `role`."""
    wanted = _on_off(parameters.tcp_nodelay)
    states: set[str] = set()
    for look in looks:
        for process in look["roles"][role]["processes"]:
            sockets = process["sockets"]
            if isinstance(sockets, str):
                states.add(sockets)
                continue
            ports = {parameters.broker_port, TLS_PORT}
            mqtt = [s for s in sockets if ports & {s["local_port"], s["peer_port"]}]
            states.update(_on_off(s["tcp_nodelay"]) for s in mqtt)
    found = ", ".join(sorted(states)) or "no MQTT connection seen"
    return Treatment(f"{role} TCP_NODELAY", wanted, found, found == wanted)


def _bridge(parameters: Parameters, bridge: dict[str, Any]) -> list[Treatment]:
    if not bridge:
        return [Treatment("bridge settings", "known", "the bridge did not say", False)]
    nodelay = bridge.get("tcp_nodelay")
    return [
        Treatment(
            "bridge TCP_NODELAY",
            _on_off(parameters.tcp_nodelay),
            "unknown" if nodelay is None else _on_off(nodelay),
            nodelay == parameters.tcp_nodelay,
        ),
        Treatment(
            "robot framing",
            parameters.robot_framing,
            str(bridge.get("framing")),
            bridge.get("framing") == parameters.robot_framing,
            note="" if bridge.get("framing") == parameters.robot_framing else "start the bridge with the same FIDELITY",
        ),
    ]


def is_virtual(bridge: dict[str, Any]) -> bool:
    """Whether the robot of a bridge that says this of itself is the lab's own simulation."""
    return str(bridge.get("serial", "")).startswith(VIRTUAL_ROBOT)


def _isolation(looks: list[dict[str, Any]], bridge: dict[str, Any], *, emulated: bool) -> list[Treatment]:
    """Bridge, robot and an emulated link apart from the host's load: not required, for no kernel need allow it."""
    found = []
    virtual = is_virtual(bridge)
    roles = (("bridge", FIFO_BRIDGE), ("robot", FIFO_ROBOT), *([("link", FIFO_LINK)] if emulated else []))
    for role, priority in roles:
        policies = _policies(looks, role)
        if policies == ["not running"] and not virtual:
            elsewhere = bridge.get("scheduling", "unknown") if role == "bridge" else "unknown"
            found.append(
                Treatment(f"{role} apart from the load", "own machine", f"not here ({elsewhere})", True, False)
            )
            continue
        wanted = f"SCHED_FIFO {priority}"
        note = _refusals(looks, role)
        found.append(
            Treatment(f"{role} apart from the load", wanted, ", ".join(policies), policies == [wanted], False, note)
        )
    return found


def judge_load(parameters: Wanted, looks: list[dict[str, Any]], role: str) -> Treatment:
    """Whether the load was there, or was not, as wanted."""
    wanted = parameters.load == role
    seen = [bool(look["roles"][role]["processes"]) for look in looks]
    # The flood pauses between its rounds; it must be there when asked for, not in each single look.
    alive = any(seen) if role == "flood" else all(seen)
    found = "running" if wanted and alive else "running" if any(seen) else "not running"
    verified = alive if wanted else not any(seen)
    note = ""
    if wanted and any(seen) and not alive:
        found = f"seen in {sum(seen)} of {len(seen)} looks"
    if wanted and role == "stress" and verified:
        oldest = {min(p["started_ticks"] for p in look["roles"][role]["processes"]) for look in looks}
        if len(oldest) > 1:
            verified, found, note = (
                False,
                "restarted during the run",
                "STRESS_TIMEOUT ended it, or it was killed",
            )
    return Treatment(f"{role} load", "running" if wanted else "not running", found, verified, note=note)


def _flood_rate(parameters: Parameters, looks: list[dict[str, Any]]) -> list[Treatment]:
    """Whether the broker received more than the loop's own requests and answers in every cell.

    Nothing where no cell is long enough to tell: the broker renews its count once a second.
    """
    own = 2 * parameters.messages * parameters.repetitions
    spans = [load_strength(parameters, before, after) for before, after in pairwise(looks)]
    rates = [
        span["broker_publish_per_s"] - own / span["seconds"]
        for span in spans
        if "broker_publish_per_s" in span and span["seconds"] >= FLOOD_SPAN_S
    ]
    if not rates:
        return []
    found = f"{min(rates):.0f} messages/s at least"
    wanted = f"{LEAST_FLOOD_PER_S} messages/s at least"
    return [Treatment("flood in every cell", wanted, found, min(rates) >= LEAST_FLOOD_PER_S)]


def _on_off(value: bool) -> str:
    return "on" if value else "off"
