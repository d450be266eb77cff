"""A run of qos-delay: its parameters, the links of a cell, run.json, and each reason that makes a cell INVALID.

The real emulator is in tests/e2e/test_e2e_qos_delay.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.run_files import fill

from looplab.errors import UsageError
from looplab.experiments.qos_delay import network
from looplab.experiments.qos_delay.controller import more_figures
from looplab.experiments.qos_delay.network import DelayResult
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.experiments.qos_delay.treatments import capture_faults, judge
from looplab.link import client
from looplab.run.cells import entry
from looplab.run.samples import ANSWERED, LATE, WAITING, SampleStore
from looplab.treatments.judgement import Treatment, reasons


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ({"DELAYS_MS": "2,20"}, [(2, 2), (20, 20)]),
        ({"PAIRS_MS": "0-20 2-18"}, [(0, 20), (2, 18)]),
        ({"DELAYS_MS": "10", "PAIRS_MS": "10-10,0-20"}, [(10, 10), (0, 20)]),
        ({"DELAYS_MS": "0.5", "PAIRS_MS": " "}, [(0.5, 0.5)]),
    ],
)
def test_what_is_set_alone_is_run(given: dict[str, str], pairs: list[tuple[float, float]]) -> None:
    assert list(QosDelayParameters.read(given).pairs_ms) == pairs


def test_each_network_has_cells_of_its_own() -> None:
    p = QosDelayParameters.read({"NETWORKS": "normal,pareto", "DELAYS_MS": "20", "QOS": "1"})
    assert [str(cell) for cell in p.published_cells] == ["20 + 20 ms, QoS 1", "20 + 20 ms, QoS 1, pareto"]
    with pytest.raises(UsageError, match="NETWORKS"):
        QosDelayParameters.read({"NETWORKS": "loss-1"})


P = QosDelayParameters.read({"DELAYS_MS": "20", "QOS": "0", "MESSAGES": "10"})
CELL = P.cells[0]
FIGURES = {"n": 400, "mean": 20.1, "sd": 2.0, "min": 15.0}
TRIPS = {peer: {**FIGURES, "n": 40, "mean": 40.8, "lost": 0} for peer in ("broker-pb", "broker-bs")}
Judged = Callable[..., DelayResult]


def state(at: str) -> dict[str, Any]:
    """As one emulator tells it where all is well."""
    ways = [
        {
            "settings": link.as_json(), "addresses": ["10.0.0.3"], "theory_ms": {"mean": 20.0, "sd": 2.0},
            "packets": 400, "dropped": 0, "overflowed": 0, "delay_ms": dict(FIGURES),
        }
        for link in network.links(P, CELL)[at]
    ]  # fmt: skip
    trips = {"rtt_ms": {peer: dict(trip) for peer, trip in TRIPS.items()}} if at == "own" else {}
    return {"backend": "nfqueue", "instance": f"first of {at}", "links": ways, **trips}


@pytest.fixture
def links_judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """What is found where the emulators say this."""

    def judge(own: dict[str, Any], broker: dict[str, Any]) -> DelayResult:
        states, found = {"own": own, "broker": broker}, DelayResult(CELL, backend="nfqueue")
        monkeypatch.setattr(client, "state", lambda url, _pings: states[url])
        monkeypatch.setattr(network, "EMULATORS", {name: name for name in states})
        network.judge(P, found)
        return found

    return judge


def test_each_way_is_delayed_where_it_ends() -> None:
    found = {at: [(link.peer, link.direction) for link in made] for at, made in network.links(P, CELL).items()}
    assert found == {
        "own": [("broker-pb", "ingress"), ("broker-bs", "ingress")],
        "broker": [("controller-pb", "ingress"), ("controller-bs", "ingress")],
    }


def test_links_that_were_there_give_the_delay_that_was_made(links_judged: Judged) -> None:
    own, broker = state("own"), state("broker")
    broker["links"][0]["delay_ms"]["mean"] = 20.3
    broker["links"][1]["delay_ms"]["mean"] = 20.6
    found = links_judged(own, broker)
    assert found.link_faults == []
    assert found.end_to_end_ms() == {"pb": 20.3, "bs": 20.1, "total": 40.4}
    # An emulator that sees each packet may lack echoes.
    assert links_judged({**own, "rtt_ms": dict.fromkeys(TRIPS)}, broker).link_faults == []
    # An emulator that was restarted knows no link.
    assert ["restarted" in why for why in links_judged(own, {**broker, "links": []}).link_faults] == [True]


@pytest.mark.parametrize(
    ("trip", "fault", "made_ms"),
    [
        (TRIPS["broker-pb"], "", 20.4),
        ({**TRIPS["broker-pb"], "mean": 21.0}, "21.00 ms", 10.5),
        ({**dict.fromkeys(FIGURES), "n": 0}, "no echo came back", None),
        (None, "no echo came back", None),
    ],
)
def test_where_the_kernel_delays_a_round_trip_tells(
    links_judged: Judged, trip: dict[str, Any] | None, fault: str, made_ms: float | None
) -> None:
    own, broker = state("own"), state("broker")
    for link in (*own["links"], *broker["links"]):
        link["delay_ms"] = {**dict.fromkeys(FIGURES), "n": 0}
    own["rtt_ms"]["broker-pb"] = trip
    found = links_judged(own, broker)
    assert [fault in why for why in found.link_faults] == [True] * bool(fault)
    assert found.end_to_end_ms()["pb"] == made_ms


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


def parameters(**more: str) -> QosDelayParameters:
    return QosDelayParameters.read(
        {"DELAYS_MS": "20", "QOS": "1", "MESSAGES": "5", "REPETITIONS": "2", "FIDELITY": "corrected", **more}
    )


def scan(broker: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One connection, both ends alike, or the broker's as `broker` has it, and that of another client."""
    sound = {"peer": "x", "tcp_nodelay": True, "rto_ms": 10_040.0}
    sockets = {
        "broker": [
            {**sound, **more, **(broker or {}), "local_port": 1883, "peer_port": 40000},
            {**sound, "rto_ms": 204.0, "local_port": 1883, "peer_port": 50000},
        ],
        "controller": [{**sound, **more, "local_port": 40000, "peer_port": 1883}],
    }
    process = {"pid": 1, "started_ticks": 1, "threads": [{"tid": 1, "scheduling": "SCHED_OTHER"}]}
    found = {**{role: [{**process, "sockets": ends}] for role, ends in sockets.items()}, "stress": [], "flood": []}
    return {"roles": {role: {"before": there, "processes": there, "refused": []} for role, there in found.items()}}


def judged(scans: list[Any], captured: Any = CAPTURED, **more: str) -> list[Treatment]:
    p = parameters(**more)
    return judge(p, scans, [DelayResult(p.cells[0], backend="nfqueue", captured=captured)])


def test_a_cell_says_what_its_samples_say() -> None:
    p, counts = parameters(), {"duplicates": 0, "out_of_order": 0, "disconnects": 0}
    made = {"delays_ms": {"pb": 20.5, "bs": 19.5}, "captured": CAPTURED}
    measured = DelayResult(p.cells[0], counts, backend="nfqueue", **made)
    measured.more.update(more_figures(p, measured))
    # Eight after 40 ms, one late, one lost.
    store, sent_ns = SampleStore(10), 10 * MS * np.arange(10) + 1000
    state = [ANSWERED] * 8 + [LATE, WAITING]
    fill(store, range(10), due_ns=sent_ns - 1000, sent_ns=sent_ns, wire_sent_ns=sent_ns, state=state)
    received_ns = sent_ns[:9] + np.array([40] * 8 + [6000]) * MS
    fill(store, range(9), received_ns=received_ns, wire_received_ns=received_ns)
    cell = entry(measured, store, p.rows(0))
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
        ([scan(tcp_nodelay=False)], "broker TCP_NODELAY"),
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
