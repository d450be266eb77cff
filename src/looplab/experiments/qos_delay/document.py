"""From a run's samples and looks to run.json: cells, treatments, what makes either invalid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import Cell, QosDelayParameters
from looplab.run.accounting import Columns, lateness, sample_line, summarise, tally, total_ns
from looplab.run.folder import SAMPLES_HEADER
from looplab.run.samples import ABSENT, NOT_SENT
from looplab.treatments import judgement as treatments
from looplab.treatments.judgement import Treatment

HEADER = f"{SAMPLES_HEADER},delay_pb_ms,delay_bs_ms"
# Two segments that TCP sends again as one are counted as sent again, and what the second held is missed.
MISSED_SHARE = 0.005
# The names that the socket facts of looplab.treatments.service carry.
_ROLES = ("broker", "controller")


@dataclass
class Measured:
    """One cell as far as it was measured; `faults` are what makes it invalid, apart from those of its links."""

    cell: Cell
    made: Made
    counts: dict[str, int] = field(default_factory=dict)
    captured: dict[str, Any] | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def invalid_because(self) -> list[str]:
        return [*self.made.faults, *self.faults]


def capture_faults(captured: Mapping[str, Any], sent: int) -> list[str]:
    """Why what was captured of a cell cannot stand for it."""
    if captured["dropped"]:
        return [f"the capture lost {captured['dropped']} packets"]
    if abs(captured["published"] - sent) > MISSED_SHARE * sent:
        return [f"the dissector found {captured['published']} PUBLISH packets of {sent}"]
    return []


def sample_lines(parameters: QosDelayParameters, columns: Columns, rows: range) -> Iterator[str]:
    """The lines of samples.csv for `rows`; rows that were never sent have none."""
    cells = parameters.cells
    for row in rows:
        if columns["state"][row] != NOT_SENT:
            cell = cells[row // parameters.messages]
            line = sample_line(columns, row, parameters.interval_ms, cell.qos, 0)
            yield f"{line},{cell.delay_pb_ms:g},{cell.delay_bs_ms:g}"


def transport_lines(columns: Columns, rows: range) -> Iterator[str]:
    """The lines of transport.csv: from bytes leaving the publisher's socket to bytes entering the subscriber's."""
    for row in rows:
        sent, received = columns["wire_sent_ns"][row], columns["wire_received_ns"][row]
        if ABSENT not in (sent, received):
            yield f"{row},{(received - sent) / 1e3:.3f},,,"


def cell_document(parameters: QosDelayParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """One entry of `cells` in run.json."""
    sent, answered, fates = tally(columns, rows)
    total = total_ns(columns, answered)
    latency = summarise(total)
    cell, made = measured.cell, measured.made
    average_ms = sum(total) / len(total) / 1e6 if total else None
    over = round(average_ms / made.total_ms, 4) if average_ms is not None and made.total_ms > 0 else None
    why = measured.invalid_because
    captured = measured.captured or {}
    per_message = {name: round(n / len(sent), 4) for name, n in captured.get("packets", {}).items() if sent}
    return {
        "delay_pb_ms": cell.delay_pb_ms,
        "delay_bs_ms": cell.delay_bs_ms,
        "distribution": parameters.distribution,
        "jitter_ms": {"pb": parameters.jitter_ms(cell.delay_pb_ms), "bs": parameters.jitter_ms(cell.delay_bs_ms)},
        "interval_ms": parameters.interval_ms,
        "qos": cell.qos,
        **fates,
        **measured.counts,
        "L_us": latency,
        "T_us": latency,
        "transport_L_us": summarise(list(_wire(columns, answered))),
        "send_lateness_us": lateness(columns, sent),
        "end_to_end_ms": made.as_json(),
        "L_over_delay": over,
        "segments": captured.get("segments"),
        "packets_per_message": per_message,
        "capture": {name: captured.get(name) for name in ("captured", "dropped", "published")},
        "links": {"backend": made.backend, "ways": made.ways, "probes": made.probes},
        "valid": not why,
        "invalid_because": why,
    }


def judge(
    parameters: QosDelayParameters, looks: Sequence[dict[str, Any] | None], measured: Sequence[Measured]
) -> list[Treatment]:
    """Every treatment of a run from the looks taken before and after each cell, and from the cells."""
    good = [look for look in looks if look is not None]
    if len(good) < len(looks) or not good:
        return [Treatment("treatments service", "answers", "no answer", False, note="nothing could be verified")]
    found = [treatments.judge_policy(parameters, good, role, 0) for role in _ROLES]
    found += [treatments.judge_nodelay(parameters, good, role) for role in _ROLES]
    found += [_time_out(parameters, good, role) for role in _ROLES]
    found.append(_sent_again(parameters, good))
    found += [treatments.judge_load(parameters, good, load) for load in ("stress", "flood")]
    found += _links(measured)
    found.append(_capture(measured))
    return found


def _wire(columns: Columns, rows: Sequence[int]) -> Iterator[int]:
    for row in rows:
        sent, received = columns["wire_sent_ns"][row], columns["wire_received_ns"][row]
        if ABSENT not in (sent, received):
            yield received - sent


def _sockets(parameters: QosDelayParameters, looks: Sequence[dict[str, Any]], role: str) -> Iterator[dict[str, Any]]:
    """The MQTT sockets of a role in all looks."""
    for look in looks:
        for process in look["roles"][role]["processes"]:
            for entry in process["sockets"] if isinstance(process["sockets"], list) else []:
                if parameters.broker_port in (entry["local_port"], entry["peer_port"]):
                    yield entry


def _time_out(parameters: QosDelayParameters, looks: Sequence[dict[str, Any]], role: str) -> Treatment:
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


def _sent_again(parameters: QosDelayParameters, looks: Sequence[dict[str, Any]]) -> Treatment:
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


def run_document(
    parameters: QosDelayParameters,
    columns: Columns,
    looks: Sequence[dict[str, Any] | None],
    measured: Sequence[Measured],
    cut_short: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """run.json but for what `more` holds; `cut_short` says why not every cell was measured, "" where all were."""
    found = judge(parameters, looks, measured)
    cells = [cell_document(parameters, columns, parameters.rows(at), entry) for at, entry in enumerate(measured)]
    wrong = [f"{t.what}: wanted {t.wanted}, found {t.found}" for t in found if t.required and not t.verified]
    wrong += [f"{m.cell.pair} ms, QoS {m.cell.qos}: {why}" for m in measured for why in m.invalid_because]
    if cut_short:
        wrong.append(f"ended after {len(cells)} of {len(parameters.cells)} cells: {cut_short}")
    return {
        **more,
        "scenario": parameters.scenario,
        "fidelity": parameters.fidelity,
        "valid": not wrong,
        "invalid_because": wrong,
        "parameters": parameters.as_json(),
        "cells": cells,
        "treatments": [t.as_json() for t in found],
    }
