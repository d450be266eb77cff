"""Whether links were there, by what their emulators say; TLS as a treatment: who wants it, and what is taken for it."""

import copy
from typing import Any

import pytest

from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.loop.treatments import judge_connections
from looplab.link.settings import LinkSettings
from looplab.treatments.link import deviation, judge

State = dict[str, Any]


def one_way(direction: str, mean_ms: float = 4.4, **settings: Any) -> State:
    whole = LinkSettings("broker", direction, 4.35, 2.2, "pareto", **settings).as_json()
    return {
        "settings": whole,
        "theory_ms": {"mean": 4.28, "sd": 1.8},
        "packets": 500,
        "dropped": 0,
        "overflowed": 0,
        "delay_ms": {"n": 500, "mean": mean_ms, "sd": 1.8},
    }


def state(**changes: Any) -> State:
    whole: State = {
        "backend": "nfqueue",
        "instance": "a1",
        "links": [one_way("egress"), one_way("ingress")],
        "rtt_ms": {"broker": {"n": 20, "mean": 8.9}},
    }
    return copy.deepcopy({**whole, **changes})


def test_a_link_that_was_there() -> None:
    found = judge("wifi", [state(), state()], True)
    assert found.verified
    assert found.wanted == "wifi: egress 4.35 ms, pareto 2.2 ms; ingress 4.35 ms, pareto 2.2 ms"
    assert "egress 4.40 ms" in found.found
    assert "round trip 8.90 ms (n 40)" in found.found


@pytest.mark.parametrize(
    ("scans", "says"),
    [
        ([], "not emulated to the end"),
        ([state(), {"fault": "it ended"}], "not emulated to the end"),
        ([state(), state(instance="b2")], "restarted"),
        ([state(links=[])], "no link is set"),
        ([state(links=[one_way("egress", 2.0)])], "wanted 4.28"),
        ([state(links=[one_way("egress", 12.0)])], "wanted 4.28"),
        ([state(links=[{**one_way("egress"), "packets": 0}])], "no packet"),
        ([state(links=[{**one_way("egress"), "overflowed": 3}])], "full queue"),
        ([state(rtt_ms={"broker": {"n": 20, "mean": 0.2}})], "round trip"),
        ([state(rtt_ms={"broker": {"n": 0}})], "no echo"),
    ],
)
def test_a_link_that_was_another_one_or_not_there_to_the_end(scans: list[State], says: str) -> None:
    found = judge("wifi", scans, True)
    assert not found.verified
    assert found.required
    assert says in f"{found.found} {found.note}"


@pytest.mark.parametrize(
    ("made_ms", "waits_ms", "verified"), [(8.2, 1.0, True), (8.2, 0.0, False), (40.0, 35.0, False)]
)
def test_waiting_for_ones_turn_adds_to_a_delay_and_is_no_fault(made_ms: float, waits_ms: float, verified: bool) -> None:
    """As far as the model makes packets wait: in order for a slower one."""
    link = {**one_way("egress", made_ms, reorder=False), "waits_ms": waits_ms}
    assert judge("wifi", [state(links=[link], rtt_ms={"broker": None})], True).verified is verified


def test_no_link_is_a_treatment_too() -> None:
    assert judge("none", [], False).verified
    left_behind = judge("none", [], True)
    assert not left_behind.verified
    assert "down" in left_behind.note


@pytest.mark.parametrize(
    ("percent", "dropped", "said"), [(1, 100, ""), (1, 160, "160 of 10000"), (1, 0, "0 of 10000"), (0, 1, "1 of 10000")]
)
def test_a_share_lost_other_than_wanted_is_seen(percent: float, dropped: int, said: str) -> None:
    settings = LinkSettings("peer", "ingress", 6.0, loss_percent=percent).as_json()
    why = deviation({"settings": settings, "packets": 10_000, "dropped": dropped, "delay_ms": {"n": 0}})
    assert why.startswith(said) if said else not why


def parameters(**settings: str) -> LoopParameters:
    return LoopParameters.read({"SCENARIO": "scenario1", **settings})


@pytest.mark.parametrize(
    ("settings", "controller", "bridge"),
    [
        ({}, False, False),
        # The loop stays as the thesis had it; what crosses the LAN does not.
        ({"ROBOT": "remote"}, False, True),
        ({"ROBOT": "remote", "BROKER_TLS": "off"}, False, False),
        ({"ROBOT": "remote", "BROKER_TLS": "on"}, True, True),
        ({"BROKER_TLS": "on"}, True, True),
    ],
)
def test_who_has_tls(settings: dict[str, str], controller: bool, bridge: bool) -> None:
    found = parameters(**settings)
    assert (found.broker_tls, found.bridge_tls) == (controller, bridge)


@pytest.mark.parametrize(
    ("wanted", "found", "verified"),
    [
        ("on", "TLSv1.3", True), ("on", "TLSv1.2", True), ("on", "TLSv1.1", False), ("on", "", False),
        ("off", "", True), ("off", "TLSv1.3", False),
    ],
)  # fmt: skip
def test_what_was_negotiated_decides(wanted: str, found: str, verified: bool) -> None:
    """Of a bridge that says nothing, as an older one, nothing is verified, whatever was wanted."""
    _, silent = judge_connections(parameters(BROKER_TLS=wanted), found, {})
    assert (silent.found, silent.verified) == ("unknown", False)
    for treatment in judge_connections(parameters(BROKER_TLS=wanted), found, {"tls": found}):
        assert treatment.verified is verified
        assert treatment.required
        assert treatment.found == (found or "off")
        assert bool(treatment.note) is not verified
