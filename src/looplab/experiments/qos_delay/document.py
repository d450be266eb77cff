"""From a run's samples and looks to run.json: cells, treatments, what makes either invalid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.qos_delay import WIRE, DelayCell
from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.run.accounting import Columns
from looplab.run.document import cell_document, samples_file
from looplab.run.record import File
from looplab.spec.columns import ABSENT, between
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process, unverified
from looplab.treatments.loads import loads
from looplab.treatments.looks import Look, mqtt_sockets

TRANSPORT_HEADER = "sequence,transport_total_us"
# Two segments that TCP sends again as one are counted as sent again, and what the second held is missed.
MISSED_SHARE = 0.005
# The names that the socket facts of looplab.treatments.service carry.
_ROLES = ("broker", "controller")


@dataclass
class Measured:
    """One cell as far as it was measured; `faults` are what makes it invalid, apart from those of its links."""

    cell: DelayCell
    made: Made
    counts: dict[str, int] = field(default_factory=dict)
    captured: dict[str, Any] | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def invalid_because(self) -> list[str]:
        return [*self.made.faults, *self.faults]


def capture_faults(captured: Mapping[str, Any], sent: int) -> list[str]:
    """Return why the capture does not represent its cell, [] if it does."""
    if captured["dropped"]:
        return [f"the capture lost {captured['dropped']} packets"]
    if abs(captured["published"] - sent) > MISSED_SHARE * sent:
        return [f"the dissector found {captured['published']} PUBLISH packets of {sent}"]
    return []


def files(parameters: QosDelayParameters) -> list[File]:
    return [samples_file(DelayCell, parameters), File("transport.csv", TRANSPORT_HEADER, transport_lines)]


def transport_lines(columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of transport.csv: from bytes leaving one socket to bytes entering the other."""
    for row in rows:
        if (latency_ns := between(*WIRE, columns, row)) != ABSENT:
            yield f"{row},{latency_ns / 1e3:.3f}"


def measured_cell(parameters: QosDelayParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    cell, made, why = measured.cell, measured.made, measured.invalid_because
    captured = measured.captured or {}
    more = {
        "distribution": parameters.distribution,
        "jitter_ms": {"pb": parameters.jitter_ms(cell.delay_pb_ms), "bs": parameters.jitter_ms(cell.delay_bs_ms)},
        "interval_ms": parameters.interval_ms,
        **measured.counts,
        "end_to_end_ms": made.as_json(),
        "segments": captured.get("segments"),
        "capture": {name: captured.get(name) for name in ("captured", "dropped", "published")},
        "links": {"backend": made.backend, "ways": made.ways, "probes": made.probes},
        "valid": not why,
        "invalid_because": why,
    }
    document = cell_document(cell, columns, rows, more)
    sent, over = document["sent"], DelayCell(document).ratio
    packets = captured.get("packets", {}) if sent else {}
    return {
        **document,
        "L_over_delay": None if over is None else round(over, 4),
        "packets_per_message": {name: round(n / sent, 4) for name, n in packets.items()},
    }


def faults(parameters: QosDelayParameters, measured: Sequence[Measured], cut_short: str) -> list[str]:
    """Return why cells are INVALID, and by `cut_short` why not every cell was measured."""
    found = [f"{m.cell.pair} ms, QoS {m.cell.qos}: {why}" for m in measured for why in m.invalid_because]
    if cut_short:
        found.append(f"ended after {len(measured)} of {len(parameters.cells)} cells: {cut_short}")
    return found


def judge(
    parameters: QosDelayParameters, looks: Sequence[Look | None], measured: Sequence[Measured]
) -> list[Treatment]:
    """Judge every treatment of a run from the looks taken before and after each cell, and from the cells."""
    if found := unverified(looks):
        return found
    good = [look for look in looks if look is not None]
    found += [judge_process(good, role) for role in _ROLES]
    found += [judge_policy(good, role, 0) for role in _ROLES]
    found += [judge_nodelay(good, role, parameters.tcp_nodelay, parameters.broker_port) for role in _ROLES]
    found += [_time_out(parameters, good, role) for role in _ROLES]
    found.append(_sent_again(parameters, good))
    found += [load.judge(good, wanted=False) for load in loads().values()]
    return [*found, *_links(measured), _capture(measured)]


def _sockets(parameters: QosDelayParameters, looks: Sequence[Look], role: str) -> list[dict[str, Any]]:
    """Return the ends at `role` of the controller's connections: the exporter's may be older than the time-out."""
    ends = {
        name: [e for e in mqtt_sockets(looks, name, [parameters.broker_port]) if not isinstance(e, str)]
        for name in _ROLES
    }
    own = {entry["local_port"] for entry in ends["controller"]}
    return ends[role] if role == "controller" else [entry for entry in ends[role] if entry["peer_port"] in own]


def _time_out(parameters: QosDelayParameters, looks: Sequence[Look], role: str) -> Treatment:
    """TCP must never send again because of the delay alone."""
    found = [entry["rto_ms"] for entry in _sockets(parameters, looks, role)]
    least = min(found, default=0.0)
    return Treatment(
        f"{role} retransmission time-out",
        f"{parameters.rto_min_ms} ms at least",
        f"{least:.0f} ms at least" if found else "no MQTT connection seen",
        bool(found) and least >= parameters.rto_min_ms,
        note="" if found and least >= parameters.rto_min_ms else "the link's sidecars set it: see LINK_RTO_MIN_MS",
    )


def _sent_again(parameters: QosDelayParameters, looks: Sequence[Look]) -> Treatment:
    """Not required: a packet that another overtakes may be sent again though it was not lost."""
    most: dict[tuple[int, int], int] = {}
    for role in _ROLES:
        for entry in _sockets(parameters, looks, role):
            key = (entry["local_port"], entry["peer_port"])
            most[key] = max(most.get(key, 0), entry["retransmissions"])
    total = sum(most.values())
    note = "by reordering, not by the time-out" if total else ""
    return Treatment("TCP segments sent again", "0", str(total), total == 0, required=False, note=note)


def _links(measured: Sequence[Measured]) -> list[Treatment]:
    good = sum(not cell.made.faults for cell in measured)
    whole = len(measured)
    first = next((f"{m.cell.pair} QoS {m.cell.qos}: {m.made.faults[0]}" for m in measured if m.made.faults), "")
    backends = sorted({m.made.backend for m in measured if m.made.backend})
    return [
        Treatment("link delay", "as wanted in every cell", f"in {good} of {whole} cells", good == whole, note=first),
        Treatment("link emulation", "netem or nfqueue", ", ".join(backends) or "none", bool(backends)),
    ]


def _capture(measured: Sequence[Measured]) -> Treatment:
    whole = [m.captured for m in measured if m.captured is not None]
    lost = sum(captured["dropped"] for captured in whole)
    found = f"{len(whole)} of {len(measured)} cells, {lost} packets lost"
    return Treatment("capture", "every cell, no packet lost", found, not lost and len(whole) == len(measured))
