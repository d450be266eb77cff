"""run.json of qos-delay: counts that add up, figures of known samples, and each reason that makes a cell INVALID."""

from dataclasses import asdict
from typing import Any

import pytest

from looplab.experiments.qos_delay import EXPERIMENT, network
from looplab.experiments.qos_delay.document import (
    Measured,
    capture_faults,
    faults,
    files,
    judge,
    measured_cell,
)
from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters, read_parameters
from looplab.run.life import run_table
from looplab.run.samples import ANSWERED, LATE, WAITING, SampleStore
from looplab.run.table import WIDTH
from looplab.treatments.judgement import reasons

MS = 1_000_000
CAPTURED = {
    "captured": 500, "dropped": 0, "published": 10, "packets": {"PUBLISH": 20, "PUBACK": 20},
    "segments": {
        "publisher": {
            "segments": 5, "sent_again": 0, "mqtt_packets": 10, "mqtt_packets_per_segment": {"mean": 2.0, "max": 3},
            "size_bytes": {"mean": 70.0, "max": 105}, "histogram": {"1": 1, "2": 3, "3": 1},
        },
    },
}  # fmt: skip
COUNTS = {"duplicates": 0, "out_of_order": 0, "disconnects": 0}


def parameters(**more: str) -> QosDelayParameters:
    return read_parameters(
        {"DELAYS_MS": "20", "QOS": "1", "MESSAGES": "5", "REPETITIONS": "2", "FIDELITY": "corrected", **more}
    )


def samples() -> SampleStore:
    """Eight after 40 ms, one late, one lost."""
    store = SampleStore(10)
    for row in range(10):
        store["due_ns"][row] = row * 10 * MS
        store["sent_ns"][row] = store["wire_sent_ns"][row] = row * 10 * MS + 1000
        store["state"][row] = WAITING
        if row < 9:
            latency = 40 * MS if row < 8 else 6000 * MS
            store["received_ns"][row] = store["wire_received_ns"][row] = store["sent_ns"][row] + latency
            store["state"][row] = ANSWERED if row < 8 else LATE
    return store


def measured(p: QosDelayParameters, **more: Any) -> Measured:
    made = Made("nfqueue", delays_ms={"pb": 20.5, "bs": 19.5})
    return Measured(p.cells[0], made, dict(COUNTS), CAPTURED, **more)


def test_a_repetition_is_a_connection_of_its_own() -> None:
    file, _transport = files(parameters())
    lines = list(file.lines(samples(), range(10)))
    assert [line.split(",")[3] for line in lines] == ["0"] * 5 + ["1"] * 5
    assert {line.split(",")[2] for line in lines} == {"1"}


BROKER_PORT, OWN_PORT, OTHER_PORT = 1883, 40000, 50000


def socket(local: int, peer: int, nodelay: bool = True, rto_ms: float = 10_040.0, again: int = 0) -> dict[str, Any]:
    return {
        "local_port": local, "peer": "x", "peer_port": peer, "tcp_nodelay": nodelay, "rto_ms": rto_ms,
        "retransmissions": again,
    }  # fmt: skip


def process(*sockets: dict[str, Any]) -> dict[str, Any]:
    threads = [{"tid": 1, "scheduling": "SCHED_OTHER"}]
    return {"pid": 1, "started_ticks": 1, "threads": threads, "sockets": list(sockets)}


def look(broker: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One connection, both ends alike, or the broker's as `broker` has it, and that of another client."""
    there = socket(BROKER_PORT, OWN_PORT, **{**more, **(broker or {})})
    other = socket(BROKER_PORT, OTHER_PORT, rto_ms=204.0, again=9)
    own = socket(OWN_PORT, BROKER_PORT, **more)
    found = {"broker": [process(there, other)], "controller": [process(own)], "stress": [], "flood": []}
    roles = {role: {"before": there, "processes": there, "refused": []} for role, there in found.items()}
    return {"roles": roles}


def document(p: QosDelayParameters, cell: Measured, looks: list[Any] | None = None, cut: str = "") -> dict[str, Any]:
    found = judge(p, looks if looks is not None else [look(), look()], [cell])
    wrong = [*reasons(found), *faults(p, [cell], cut)]
    return {
        "run_id": "x-qos-delay", "scenario": p.scenario, "fidelity": p.fidelity, "valid": not wrong,
        "invalid_because": wrong, "cells": [measured_cell(p, samples(), p.rows(0), cell)],
        "treatments": list(map(asdict, found)),
    }  # fmt: skip


def test_a_cell_says_what_its_samples_say() -> None:
    p = parameters()
    cell = measured_cell(p, samples(), p.rows(0), measured(p))
    assert (cell["sent"], cell["answered"], cell["late"], cell["lost"]) == (10, 8, 1, 1)
    assert cell["L_us"]["n"] == 9
    assert cell["L_us"]["p50"] == 40_000
    assert cell["L_us"] == cell["transport_L_us"]
    assert cell["L_us"]["avg"] == pytest.approx((8 * 40_000 + 6_000_000) / 9, abs=0.001)
    assert cell["end_to_end_ms"] == {"pb": 20.5, "bs": 19.5, "total": 40.0}
    assert cell["L_over_delay"] == pytest.approx(cell["L_us"]["avg"] / 40_000, abs=0.0001)
    assert cell["send_lateness_us"]["max"] == 1.0
    assert cell["packets_per_message"] == {"PUBLISH": 2.0, "PUBACK": 2.0}
    assert cell["segments"]["publisher"]["histogram"] == {"1": 1, "2": 3, "3": 1}
    assert cell["valid"]


def test_a_run_as_it_should_be_is_valid_and_its_table_fits() -> None:
    p = parameters()
    run = document(p, measured(p))
    assert run["valid"], run["invalid_because"]
    assert [(t["what"], t["verified"]) for t in run["treatments"] if not t["verified"]] == []
    assert all(len(line) <= WIDTH for line in run_table(EXPERIMENT, run).splitlines())


@pytest.mark.parametrize(
    ("looks", "what"),
    [
        ([look(), None], "treatments service"),
        ([look(nodelay=False)], "broker TCP_NODELAY"),
        ([look(), look(rto_ms=204.0)], "controller retransmission time-out"),
        ([look(), look(broker={"rto_ms": 204.0})], "broker retransmission time-out"),
    ],
)
def test_a_treatment_that_did_not_take_makes_the_run_invalid(looks: list[Any], what: str) -> None:
    p = parameters()
    run = document(p, measured(p), looks)
    assert not run["valid"]
    assert any(what in why for why in run["invalid_because"])


def test_a_segment_sent_again_is_told_and_makes_nothing_invalid() -> None:
    p = parameters()
    run = document(p, measured(p), [look(broker={"again": 2}), look(broker={"again": 3})])
    assert run["valid"]
    (found,) = [t for t in run["treatments"] if t["what"] == "TCP segments sent again"]
    assert found["found"] == "3"
    assert not found["required"]


def test_a_cell_that_was_not_captured_whole_is_invalid() -> None:
    assert capture_faults(CAPTURED, 10) == []
    assert capture_faults({**CAPTURED, "dropped": 4}, 10) == ["the capture lost 4 packets"]
    assert capture_faults({**CAPTURED, "published": 9}, 10) == ["the dissector found 9 PUBLISH packets of 10"]
    p = parameters()
    run = document(p, measured(p, faults=["the capture lost 4 packets"]))
    assert not run["valid"]
    assert run["cells"][0]["invalid_because"] == ["the capture lost 4 packets"]
    assert "20-20 ms, QoS 1: the capture lost 4 packets" in run["invalid_because"]


def test_a_sweep_cut_short_says_so() -> None:
    p = parameters(DELAYS_MS="20,30")
    run = document(p, measured(p), cut="the emulator is gone")
    assert run["invalid_because"] == ["ended after 1 of 2 cells: the emulator is gone"]
    assert len(run["cells"]) == 1


def test_live_treatments_need_no_cell_that_is_whole() -> None:
    p = parameters()
    bare = Measured(p.cells[0], Made("nfqueue"))
    assert {t.what for t in judge(p, [look()], [bare])} >= {"link delay", "capture", "broker TCP_NODELAY"}


@pytest.mark.parametrize("at", ["own", "broker"])
def test_a_delay_of_nought_is_no_link(at: str) -> None:
    p = parameters(DELAYS_MS="", PAIRS_MS="0-20", JITTER_SHARE="0.2")
    (link,) = network.links(p, p.cells[0], at)
    assert link.peer.endswith("-bs")
    assert (link.delay_ms, link.jitter_ms, link.distribution) == (20, 4, "normal")
