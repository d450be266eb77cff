"""Whether a run of qos-delay was as wanted: processes, sockets, links and capture in every cell."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process
from looplab.treatments.link import judge_cells
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, mqtt_sockets

# The names that the socket facts of looplab.treatments.service carry.
_ROLES = ("broker", "controller")


def capture_faults(parameters: QosDelayParameters, captured: Mapping[str, Any]) -> list[str]:
    """Return why the capture does not represent its cell, [] if it does."""
    sent = parameters.messages * parameters.repetitions
    if captured["dropped"]:
        return [f"the capture lost {captured['dropped']} packets"]
    if captured["published"] != sent:
        return [f"the dissector found {captured['published']} PUBLISH packets of {sent}"]
    return []


def judge(
    parameters: QosDelayParameters,
    scans: Sequence[Scan],
    links: Sequence[tuple[str, Made]],
    captured: Mapping[str, Mapping[str, Any] | None],
) -> list[Treatment]:
    """Judge every treatment from the scans of each repetition, and from links and capture of each measured cell."""
    treatments = [judge_process(scans, role) for role in _ROLES]
    treatments += [judge_policy(scans, role, 0) for role in _ROLES]
    treatments += [judge_nodelay(scans, role, parameters.tcp_nodelay, parameters.broker_port) for role in _ROLES]
    treatments += [_time_out(parameters, scans, role) for role in _ROLES]
    treatments += [load.judge(scans, wanted=False) for load in loads().values()]
    treatments += judge_cells([(cell, made.backend, made.faults) for cell, made in links])
    return [*treatments, _capture(captured)]


def _sockets(parameters: QosDelayParameters, scans: Sequence[Scan], role: str) -> list[dict[str, Any]]:
    """Return the ends at `role` of the controller's connections: the exporter's may be older than the time-out."""
    ports = [parameters.broker_port]
    ends = {name: [e for e in mqtt_sockets(scans, name, ports) if not isinstance(e, str)] for name in _ROLES}
    own = {entry["local_port"] for entry in ends["controller"]}
    return [entry for entry in ends[role] if own & {entry["local_port"], entry["peer_port"]}]


def _time_out(parameters: QosDelayParameters, scans: Sequence[Scan], role: str) -> Treatment:
    """TCP must never send again because of the delay alone."""
    least = min((entry["rto_ms"] for entry in _sockets(parameters, scans, role)), default=None)
    kept = least is not None and least >= parameters.rto_min_ms
    return Treatment(
        f"{role} retransmission time-out",
        f"{parameters.rto_min_ms} ms at least",
        "no MQTT connection seen" if least is None else f"{least:.0f} ms at least",
        kept,
        note="" if kept else "the link's sidecars set it: see LINK_RTO_MIN_MS",
    )


def _capture(captured: Mapping[str, Mapping[str, Any] | None]) -> Treatment:
    known = [one for one in captured.values() if one is not None]
    lost = sum(one["dropped"] for one in known)
    captures = f"{len(known)} of {len(captured)} cells, {lost} packets lost"
    return Treatment("capture", "every cell, no packet lost", captures, not lost and len(known) == len(captured))
