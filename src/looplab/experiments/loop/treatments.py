"""The treatments of the loop: which roles are judged in a run, and by what."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from looplab.experiments.loop import BRIDGE, EXPERIMENT, ROBOT
from looplab.experiments.loop.parameters import DIRECT, OWN, PORT, LoopParameters
from looplab.experiments.loop.protocol import (
    COMMAND_EMULATED,
    CONNECTIONS,
    LEGS,
    TOPIC_ANSWER,
    TOPIC_REQUEST,
    TWO,
    subscription_qos,
)
from looplab.experiments.loop.readiness import judge_bridge
from looplab.spec.brokers import BROKERS
from looplab.spec.roles import BROKER, CONTROLLER, LINK, Role
from looplab.system.own_process import GRANTED
from looplab.system.processes import EFFECTIVE
from looplab.treatments.judgement import (
    TLS_PORT,
    Treatment,
    compared,
    judge_nodelay,
    judge_policy,
    judge_process,
    policy,
    unverified,
)
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import judge_loads
from looplab.treatments.loads.load import effort, published
from looplab.treatments.scans import Scan, identities, mqtt_sockets, policies, processes, refusals

# The broker itself listens here, whatever port the host publishes.
BROKER_PORT = 1883
VIRTUAL_ROBOT = "socket://robot:"
# Bridge and robot take the place of another machine. Their own delay must be small beside what the report compares, in
# absolute time, as changes of O are: a tenth of the 1 ms that O takes on a quiet machine.
MOST_WAIT_US = 100
# A request wakes each of them twice: the bridge by request and answer, the robot to take a byte and to deliver some.
WAKE_UPS = 2
_PROCESSES = (BROKER, CONTROLLER, BRIDGE, ROBOT)


def roles(broker: str, bridge: Role = BRIDGE) -> list[Role]:
    """Return every role of the loop, with that of its broker and of its bridge."""
    others = {BROKER: BROKERS[broker].role, BRIDGE: bridge}
    return [others.get(role, role) for role in EXPERIMENT.roles]


def applied(parameters: LoopParameters) -> dict[str, int]:
    """Return the published real-time priorities by role, {} for a run that applies none."""
    published = {BROKER.name: parameters.priority_broker, CONTROLLER.name: parameters.priority_controller}
    return published if parameters.apply_priority else {}


def judge(
    parameters: LoopParameters,
    scans: Sequence[Scan | None],
    bridge: Mapping[str, Any],
    fault: str = "",
    attempt: str = "",
) -> list[Treatment]:
    """Judge every treatment that scans and bridge show, from before the first cell to after the last.

    `scans` are the service's answers (None: it did not answer, by its `fault`), `bridge` is what the bridge reports.
    `attempt` says whether a child of the controller was granted its priority, which no scan shows.
    """
    if missing := unverified(scans, fault):
        return missing
    good = [scan for scan in scans if scan is not None]
    both, own = (BROKER.name, CONTROLLER.name), applied(parameters)
    return [
        *(judge_process(good, role.name) for role in _PROCESSES if role is not ROBOT or _has_robot(parameters)),
        *(judge_policy(good, role, own.get(role, 0)) for role in both),
        *judge_permission(good, BROKER.name, parameters.priority_broker),
        *judge_permission(good, CONTROLLER.name, parameters.priority_controller, attempt),
        *(judge_nodelay(good, role, parameters.tcp_nodelay, parameters.broker_port, BROKER_PORT) for role in both),
        *judge_bridge(parameters, bridge),
        *_judge_isolation(parameters, good, bridge),
        *judge_loads(parameters.load, parameters.load_settings, good),
    ]


def elsewhere(bridge: Mapping[str, Any]) -> dict[str, list[object]]:
    """Return what distinguishes a bridge and its robot on another machine from their successors.

    A restarted bridge is another `instance`, its restarted machine another `boot`; the bridge counts how often it
    opened the robot's port again and how often the robot was reset.
    """
    faults = bridge.get("robot_faults") or {}
    robot = [bridge.get("reopened"), faults.get("reset")]
    return {
        BRIDGE.name: [bridge["instance"], bridge.get("boot")] if bridge.get("instance") else [],
        ROBOT.name: robot if robot[0] is not None else [],
    }


def strength(load: str, before: Scan, after: Scan) -> dict[str, Any]:
    """Return how hard a load was between two scans: CPU seconds consumed, messages a second at the broker."""
    result = effort(load, before, after)
    if found := published(before, after):
        messages, own, span_s = found
        result["broker_publish_per_s"] = round(messages / span_s, 1)
        result[f"{load}_messages_per_s"] = round((messages - own) / span_s, 1)
    return result


def broker_restarted(scans: Sequence[Scan | None]) -> bool:
    """Return whether the broker was another process in one scan than in the one before."""
    seen = [found for found in identities([scan for scan in scans if scan is not None], BROKER.name) if found]
    return any(before != after for before, after in pairwise(seen))


def judge_connection(role: str, losses: Sequence[str]) -> Treatment:
    """Judge whether a part kept its connection to the broker; `losses` says why it did not, for each time."""
    causes = "; ".join(dict.fromkeys(losses))
    found = f"lost {len(losses)} x: {causes}" if losses else "kept"
    note = "messages sent meanwhile are lost, and latencies about it are not the loop's" if losses else ""
    return Treatment(f"connection of the {role}", "kept", found, not losses, note=note)


def judge_broker(parameters: LoopParameters, version: str) -> Treatment:
    """Judge whether the broker that answers is the one that was wanted, by the `version` it reports."""
    named = f"{parameters.broker} {version}" if version else f"a broker that reports no version of {parameters.broker}"
    return Treatment("broker", parameters.broker, named, bool(version))


def judge_legs(
    parameters: LoopParameters,
    controller: Mapping[str, int],
    bridge: Mapping[str, Any],
    answers: Collection[tuple[int, int]],
) -> Iterator[Treatment]:
    """Judge which legs of the loop had the QoS.

    `controller` (by topic) and the bridge's report show what the broker granted to subscriptions. `answers` are the QoS
    of requests, each with the QoS of an answer.
    """
    known, legs = max(BROKERS[parameters.broker].qos), parameters.qos_legs
    granted = []
    # What programs of the user's own subscribe to shows in the answers alone.
    if parameters.clients != OWN:
        wanted_qos = subscription_qos(legs, max(parameters.qos))
        granted.append(("controller", TOPIC_ANSWER, wanted_qos, controller.get(TOPIC_ANSWER)))
    if not parameters.own_bridge:
        wanted_qos = min(known, subscription_qos(legs, 2))
        granted.append(("bridge", TOPIC_REQUEST, wanted_qos, bridge.get("subscription_qos")))
    if parameters.connections == TWO and parameters.clients != OWN:
        granted.append(("publisher", TOPIC_REQUEST, 0, controller.get(TOPIC_REQUEST)))
    for role, topic, qos, found in granted:
        yield compared(f"{role}'s subscription to {topic}", f"QoS {qos}", f"QoS {found}")
    if answers:
        wanted = "QoS 0" if legs == LEGS["thesis"] else "the request's QoS"
        wrong = sorted(pair for pair in answers if pair[1] != subscription_qos(legs, pair[0]))
        yield compared(
            "answers", wanted, [f"QoS {came} to a request at QoS {asked}" for asked, came in wrong] or wanted
        )


def judge_number(parameters: LoopParameters, scans: Sequence[Scan | None]) -> Treatment:
    """Judge how many connections to the broker the controller had in each scan."""
    connections = set()
    for scan in filter(None, scans):
        sockets = mqtt_sockets([scan], CONTROLLER.name, (parameters.broker_port, TLS_PORT))
        unreadable = next((one for one in sockets if isinstance(one, str)), "")
        connections.add(unreadable or str(len(sockets)))
    return compared("controller connections", str(CONNECTIONS[parameters.connections]), connections)


def judge_path(parameters: LoopParameters, scans: Sequence[Scan | None], role: Role) -> Treatment:
    """Judge how `role` reaches the broker: `direct` if its connections end at an address that the broker has."""
    paths = set()
    for scan in filter(None, scans):
        peers, addresses = (
            _addresses(parameters, scan, role.name, "peer"),
            _addresses(parameters, scan, BROKER.name, "local"),
        )
        paths |= {DIRECT if peer in addresses else PORT for peer in peers if addresses}
    return compared(f"{role.name} path to the broker", parameters.broker_path, paths or "no connection seen")


def _addresses(parameters: LoopParameters, scan: Scan, role: str, end: str) -> set[str]:
    """Return the addresses at one end of each connection of `role` to the broker; a socket for IPv6 may hold IPv4."""
    sockets = mqtt_sockets([scan], role, (parameters.broker_port, BROKER_PORT, TLS_PORT))
    return {str(one[end]).removeprefix("::ffff:") for one in sockets if isinstance(one, dict)}


def judge_connections(parameters: LoopParameters, controller: str, bridge: Mapping[str, Any]) -> Iterator[Treatment]:
    """Judge TLS; `controller` is the version on its connection ("" without), `bridge` what the bridge reports."""
    negotiated = [
        ("controller", parameters.broker_tls, controller),
        ("bridge", parameters.bridge_tls, str(bridge.get("tls", "")) if bridge else "unknown"),
    ][: 1 if parameters.own_bridge else 2]
    note = "the bridge goes by its pairing file (./lab pair), the controller by BROKER_TLS"
    for role, wanted, version in negotiated:
        verified = version in (("TLSv1.2", "TLSv1.3") if wanted else ("",))
        words = "TLS 1.2 or later" if wanted else "off"
        yield Treatment(f"{role} TLS", words, version or "off", verified, note="" if verified else note)


def judge_robot(parameters: LoopParameters, cells: Sequence[Mapping[str, Any]], *, virtual: bool) -> list[Treatment]:
    """Judge by the own delay of bridge and virtual robot whether the host's load reached them.

    Their own delay is their mean wait on a run queue for one request. The bridge's before R1 is part of O, the rest is
    part of R. The cell with the longest one is judged. The result is [] where a real robot answers, or before the first
    cell. It is never required, as no kernel need allow what keeps the load away, but verdicts about O need it.
    """
    roles = (BRIDGE, ROBOT) if _has_robot(parameters) else (BRIDGE,)
    delays = [(own_delay_us(cell, roles), cell) for cell in cells if cell["cpu_wait_us"]]
    if not virtual or not delays:
        return []
    delay_us, cell = max(delays, key=lambda one: one[0])
    good = delay_us <= MOST_WAIT_US
    wanted = f"bridge and robot wait at most {MOST_WAIT_US} us for a processor"
    longest = f"{delay_us:.0f} us at {cell['interval_ms']:g} ms, QoS {cell['qos']}"
    note = "" if good else "they were short of processor time: O and R are not the loop's alone"
    return [Treatment("robot untouched by the load", wanted, longest, good, required=False, note=note)]


def own_delay_us(cell: Mapping[str, Any], roles: Sequence[Role]) -> float:
    """Return how long a request waited for `roles` to get a processor, mean in us, by a cell of run.json."""
    waits, runs = cell["cpu_wait_us"], cell["cpu_runs"]
    return float(sum(WAKE_UPS * waits.get(role.name, 0.0) / runs[role.name] for role in roles if runs[role.name]))


def _has_robot(parameters: LoopParameters) -> bool:
    return parameters.command != COMMAND_EMULATED


def is_virtual(bridge: Mapping[str, Any]) -> bool:
    """Return whether the robot of the bridge that reports this is the lab's own simulation."""
    return str(bridge.get("serial", "")).startswith(VIRTUAL_ROBOT)


def _judge_isolation(
    parameters: LoopParameters, scans: Sequence[Scan], bridge: Mapping[str, Any]
) -> Iterator[Treatment]:
    """Judge whether bridge, robot and link ran apart from the host's load: not required, as no kernel need allow it.

    A real robot has a machine of its own, and so may its bridge, which reports its policy there.
    """
    for role in (BRIDGE, ROBOT, *([LINK] if parameters.link != NO_LINK else [])):
        what, found = f"{role.name} apart from the load", policies(scans, role.name)
        if found == ["not running"] and not is_virtual(bridge):
            there = str(bridge.get("scheduling", "unknown")) if role is BRIDGE else "unknown"
            yield Treatment(what, "own machine", f"not here ({there})", True, False)
        else:
            yield compared(what, policy(role.fifo), found, required=False, note=refusals(scans, role.name))


def judge_permission(scans: Sequence[Scan], role: str, priority: int, attempt: str = "") -> Iterator[Treatment]:
    """Judge what the published flags give: the right to ask for real-time priority; nothing without a `priority`.

    The proof is an attempt: `attempt`, or what the part's start noted. Without one, limit and capability decide.
    """
    if not priority:
        return
    seen = [process for scan in scans for process in processes(scan, role)]
    limits = sorted({process["rtprio_limit"] for process in seen})
    limit_met = bool(limits) and all(limit == "unlimited" or int(limit) >= priority for limit in limits)
    capability = sorted({process["sys_nice"] for process in seen})
    tried = attempt or ", ".join(sorted({process.get("attempt", "") for process in seen}))
    permitted = tried == GRANTED if tried else limit_met or capability == [EFFECTIVE]
    flags = f"rtprio limit {', '.join(limits) or 'unknown'}; SYS_NICE {', '.join(capability) or 'unknown'}"
    found = f"{tried or 'not tried'}: {flags}"
    note = "" if limit_met else "not applied: the engine refuses it or LAB_RTPRIO lowers it"
    remedy = "" if permitted else "priority not granted: LAB_PRIORITY_UID=0 in .env, or see `./lab doctor`"
    yield Treatment(f"{role} may use real-time priority", "permitted", found, permitted, note=remedy)
    yield Treatment(f"{role} rtprio limit", str(priority), ", ".join(limits) or "unknown", limit_met, False, note)
