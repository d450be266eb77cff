"""Whether a run of qos-delay was as wanted: processes, sockets, links and capture in every cell."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.qos_delay.network import DelayResult
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process
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


def judge(parameters: QosDelayParameters, scans: Sequence[Scan], measured: Sequence[DelayResult]) -> list[Treatment]:
    """Judge every treatment from the scans of each repetition, and from links and capture of each measured cell."""
    treatments = [judge_process(scans, role) for role in _ROLES]
    treatments += [judge_policy(scans, role, 0) for role in _ROLES]
    treatments += [judge_nodelay(scans, role, parameters.tcp_nodelay, parameters.broker_port) for role in _ROLES]
    treatments += [_time_out(parameters, scans, role) for role in _ROLES]
    treatments += [load.judge(scans, wanted=False) for load in loads().values()]
    return [*treatments, *([_links(measured)] if measured else []), _capture(measured)]


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


def _links(measured: Sequence[DelayResult]) -> Treatment:
    backends = sorted({one.backend for one in measured if one.backend})
    faulty = [f"{one.cell}: {one.link_faults[0]}" for one in measured if one.link_faults]
    found = f"in {len(measured) - len(faulty)} of {len(measured)} cells, by {', '.join(backends) or 'none'}"
    return Treatment("link delay", "as wanted in every cell", found, not faulty, note="".join(faulty[:1]))


def _capture(measured: Sequence[DelayResult]) -> Treatment:
    known = [one.captured for one in measured if one.captured is not None]
    lost = sum(one["dropped"] for one in known)
    captures = f"{len(known)} of {len(measured)} cells, {lost} packets lost"
    return Treatment("capture", "every cell, no packet lost", captures, not lost and len(known) == len(measured))
