"""A cell's links judged by what the emulator says after it; the real one is in tests/e2e/test_e2e_qos_delay.py."""

from collections.abc import Callable
from typing import Any

import pytest

from looplab.experiments.qos_delay import network
from looplab.experiments.qos_delay.network import Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.link import client
from looplab.treatments.link import Emulators

P = QosDelayParameters.read({"DELAYS_MS": "20", "QOS": "0", "MESSAGES": "10"})
CELL = P.cells[0]
FIGURES = {"n": 400, "mean": 20.1, "sd": 2.0, "min": 15.0}
TRIPS = {peer: {**FIGURES, "n": 40, "mean": 40.8, "lost": 0} for peer in ("broker-pb", "broker-bs")}
Judged = Callable[..., Made]


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
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """What is found where the emulators say this."""

    def judge(own: dict[str, Any], broker: dict[str, Any]) -> Made:
        states, found = {"own": own, "broker": broker}, Made("nfqueue")
        monkeypatch.setattr(client, "state", lambda url, _pings: states[url])
        network.judge(P, CELL, found, Emulators({name: name for name in states}))
        return found

    return judge


def test_each_way_is_delayed_where_it_ends() -> None:
    found = {at: [(link.peer, link.direction) for link in made] for at, made in network.links(P, CELL).items()}
    assert found == {
        "own": [("broker-pb", "ingress"), ("broker-bs", "ingress")],
        "broker": [("controller-pb", "ingress"), ("controller-bs", "ingress")],
    }


def test_links_that_were_there_give_the_delay_that_was_made(judged: Judged) -> None:
    own, broker = state("own"), state("broker")
    broker["links"][0]["delay_ms"]["mean"] = 20.3
    broker["links"][1]["delay_ms"]["mean"] = 20.6
    found = judged(own, broker)
    assert found.faults == []
    assert found.as_json() == {"pb": 20.3, "bs": 20.1, "total": 40.4}


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
    judged: Judged, trip: dict[str, Any] | None, fault: str, made_ms: float | None
) -> None:
    own, broker = state("own"), state("broker")
    for link in (*own["links"], *broker["links"]):
        link["delay_ms"] = {**dict.fromkeys(FIGURES), "n": 0}
    own["rtt_ms"]["broker-pb"] = trip
    found = judged(own, broker)
    assert [fault in why for why in found.faults] == [True] * bool(fault)
    assert found.as_json()["pb"] == made_ms


def test_an_emulator_that_sees_each_packet_may_lack_echoes(judged: Judged) -> None:
    assert judged({**state("own"), "rtt_ms": dict.fromkeys(TRIPS)}, state("broker")).faults == []
