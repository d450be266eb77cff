"""run.json of qos-delay: counts that add up, figures of known samples, and each reason that makes a cell INVALID."""

from typing import Any

import pytest

from looplab.experiments.qos_delay import network
from looplab.experiments.qos_delay.controller import DelayResult, more_figures
from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.experiments.qos_delay.treatments import capture_faults, judge
from looplab.run.cells import entry
from looplab.run.samples import ANSWERED, LATE, WAITING, SampleStore
from looplab.treatments.judgement import Treatment, reasons

MS = 1_000_000
CAPTURED = {
    "captured": 500, "dropped": 0, "published": 10, "packets": {"PUBLISH": 20, "PUBACK": 20},
    "segments": {
        "publisher": {
            "sent_again": 0, "mqtt_packets_per_segment": {"mean": 2.0},
            "size_bytes": {"max": 105}, "histogram": {"1": 1, "2": 3, "3": 1},
        },
    },
}  # fmt: skip
COUNTS = {"duplicates": 0, "out_of_order": 0, "disconnects": 0}


def parameters(**more: str) -> QosDelayParameters:
    return QosDelayParameters.read(
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


def measured(p: QosDelayParameters) -> DelayResult:
    made = Made("nfqueue", delays_ms={"pb": 20.5, "bs": 19.5})
    cell = DelayResult(p.cells[0], dict(COUNTS), made=made, captured=CAPTURED)
    cell.more.update(more_figures(p, cell))
    return cell


BROKER_PORT, OWN_PORT, OTHER_PORT = 1883, 40000, 50000


def socket(local: int, peer: int, nodelay: bool = True, rto_ms: float = 10_040.0) -> dict[str, Any]:
    return {"local_port": local, "peer": "x", "peer_port": peer, "tcp_nodelay": nodelay, "rto_ms": rto_ms}


def process(*sockets: dict[str, Any]) -> dict[str, Any]:
    threads = [{"tid": 1, "scheduling": "SCHED_OTHER"}]
    return {"pid": 1, "started_ticks": 1, "threads": threads, "sockets": list(sockets)}


def scan(broker: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One connection, both ends alike, or the broker's as `broker` has it, and that of another client."""
    there = socket(BROKER_PORT, OWN_PORT, **{**more, **(broker or {})})
    other = socket(BROKER_PORT, OTHER_PORT, rto_ms=204.0)
    own = socket(OWN_PORT, BROKER_PORT, **more)
    found = {"broker": [process(there, other)], "controller": [process(own)], "stress": [], "flood": []}
    roles = {role: {"before": there, "processes": there, "refused": []} for role, there in found.items()}
    return {"roles": roles}


def judged(scans: list[Any], captured: Any = CAPTURED, **more: str) -> list[Treatment]:
    return judge(parameters(**more), scans, [("40 ms", Made("nfqueue"))], {"20 + 20 ms, QoS 1": captured})


def test_a_cell_says_what_its_samples_say() -> None:
    p = parameters()
    cell = entry(measured(p), samples(), p.rows(0))
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


def test_a_run_as_it_should_be_is_valid() -> None:
    assert [one.what for one in judged([scan(), scan()]) if not one.verified] == []


@pytest.mark.parametrize(
    ("scans", "what"),
    [
        ([scan(nodelay=False)], "broker TCP_NODELAY"),
        ([scan(), scan(rto_ms=204.0)], "controller retransmission time-out"),
        ([scan(), scan(broker={"rto_ms": 204.0})], "broker retransmission time-out"),
    ],
)
def test_a_treatment_that_did_not_take_makes_the_run_invalid(scans: list[Any], what: str) -> None:
    assert any(what in why for why in reasons(judged(scans)))


def test_a_cell_that_was_not_captured_whole_is_invalid() -> None:
    p, few = parameters(), {**CAPTURED, "published": 9}
    assert capture_faults(p, CAPTURED) == []
    assert capture_faults(p, {**CAPTURED, "dropped": 4}) == ["the capture lost 4 packets"]
    assert capture_faults(p, few) == ["the dissector found 9 PUBLISH packets of 10"]
    assert reasons(judged([scan()], None))[0].startswith("capture: ")


@pytest.mark.parametrize("at", ["own", "broker"])
def test_a_delay_of_nought_is_no_link(at: str) -> None:
    p = parameters(DELAYS_MS="", PAIRS_MS="0-20", JITTER_SHARE="0.2")
    (link,) = network.links(p, p.cells[0])[at]
    assert link.peer.endswith("-bs")
    assert (link.delay_ms, link.jitter_ms, link.distribution) == (20, 4, "normal")
