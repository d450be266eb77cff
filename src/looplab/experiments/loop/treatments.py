"""The treatments of the loop: which roles are judged in a run, and by what."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.loop import BRIDGE, EXPERIMENT, ROBOT
from looplab.experiments.loop.document import service_ns, waited
from looplab.experiments.loop.parameters import Parameters
from looplab.experiments.loop.protocol import COMMAND_ROBOT
from looplab.run.accounting import Columns, quantile, tally
from looplab.treatments.judgement import (
    Treatment,
    judge_isolation,
    judge_nodelay,
    judge_permission,
    judge_policy,
    judge_tls,
    on_off,
    unverified,
)
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import loads
from looplab.treatments.looks import Look, TreatmentsClient
from looplab.treatments.roles import LINK

VIRTUAL_ROBOT = "socket://robot:"
# R p99 of the virtual robot in scenario 1 on an idle machine (bench/stress.py).
UNLOADED_P99_MS = 5.0
LIMIT = 1.2


def client() -> TreatmentsClient:
    """Return a client of the treatments service that asks about every role of the loop and every load."""
    return TreatmentsClient([*EXPERIMENT.roles, *(load.role for load in loads().values())])


def priorities(parameters: Parameters) -> dict[str, int]:
    """Return the published real-time priorities by role."""
    return {"broker": parameters.priority_broker, "controller": parameters.priority_controller}


def applied(parameters: Parameters) -> dict[str, int]:
    """Return the real-time priorities that this run applies."""
    return priorities(parameters) if parameters.apply_priority else {}


def judge(parameters: Parameters, looks: Sequence[Look | None], bridge: Mapping[str, Any]) -> list[Treatment]:
    """Judge every treatment that looks and bridge show, from before the first cell to after the last.

    `looks` are the service's answers (None: it did not answer), `bridge` is what the bridge reports of itself.
    """
    if found := unverified(looks):
        return found
    good = [look for look in looks if look is not None]
    roles = ("broker", "controller")
    found += [judge_policy(good, role, applied(parameters).get(role, 0)) for role in roles]
    for role, priority in priorities(parameters).items():
        found += judge_permission(good, role, priority) if priority else []
    found += [judge_nodelay(good, role, parameters.tcp_nodelay, parameters.broker_port) for role in roles]
    found += _bridge(parameters, bridge)
    found += _isolation(parameters, good, bridge)
    found += [load.judge(good, wanted=parameters.load == load.name) for load in loads().values()]
    if parameters.load in loads():
        # Requests and answers.
        own_messages = 2 * parameters.messages * parameters.repetitions
        found += loads()[parameters.load].judge_rate(good, own_messages)
    return found


def judge_connections(parameters: Parameters, controller: str, bridge: Mapping[str, Any]) -> list[Treatment]:
    """Judge TLS; `controller` is the version on its connection ("" without), `bridge` what the bridge reports."""
    version = str(bridge.get("tls", "")) if bridge else "unknown"
    return [
        judge_tls("controller", parameters.broker_tls, controller),
        judge_tls("bridge", parameters.bridge_tls, version),
    ]


def judge_robot(parameters: Parameters, columns: Columns, *, virtual: bool) -> list[Treatment]:
    """Judge by R p99 of all answers so far, without queueing, whether the host's load reached the virtual robot.

    [] where a real robot answers, or none. Never required: no kernel need allow what keeps the load away.
    """
    if not virtual or parameters.command != COMMAND_ROBOT:
        return []
    _sent, measured, _fates = tally(columns, range(parameters.samples))
    found = sorted(service_ns(columns, measured))
    if not found:
        return []
    p99_ms, queued = quantile(found, 0.99) / 1e6, waited(columns, measured)
    most_ms = UNLOADED_P99_MS * LIMIT
    wanted = f"R p99 at most {most_ms:.1f} ms, {LIMIT} x that of an idle machine"
    note = f"without the wait for earlier requests, which {queued} of {len(found)} had" if queued else ""
    return [
        Treatment("robot untouched by the load", wanted, f"R p99 {p99_ms:.1f} ms", p99_ms <= most_ms, False, note=note)
    ]


def is_virtual(bridge: Mapping[str, Any]) -> bool:
    """Return whether the robot of the bridge that reports this is the lab's own simulation."""
    return str(bridge.get("serial", "")).startswith(VIRTUAL_ROBOT)


def _bridge(parameters: Parameters, bridge: Mapping[str, Any]) -> list[Treatment]:
    if not bridge:
        return [Treatment("bridge settings", "known", "the bridge did not say", False)]
    nodelay, framing = bridge.get("tcp_nodelay"), bridge.get("framing")
    same = framing == parameters.robot_framing
    note = "" if same else "start the bridge with the same FIDELITY"
    return [
        Treatment(
            "bridge TCP_NODELAY",
            on_off(parameters.tcp_nodelay),
            "unknown" if nodelay is None else on_off(nodelay),
            nodelay == parameters.tcp_nodelay,
        ),
        Treatment("robot framing", parameters.robot_framing, str(framing), same, note=note),
    ]


def _isolation(parameters: Parameters, looks: Sequence[Look], bridge: Mapping[str, Any]) -> list[Treatment]:
    """A real robot has a machine of its own, and so may its bridge."""
    virtual = is_virtual(bridge)
    reported = {"bridge": str(bridge.get("scheduling", "unknown"))}
    roles = (BRIDGE, ROBOT, *([LINK] if parameters.link != NO_LINK else []))
    return [judge_isolation(looks, role, "" if virtual else reported.get(role.name, "unknown")) for role in roles]
