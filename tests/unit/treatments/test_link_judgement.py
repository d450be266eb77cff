"""Whether a run's link was there, judged from what its emulator says between the cells."""

import copy
from typing import Any

import pytest

from looplab.link.settings import LinkSettings
from looplab.treatments.link import judge, look

State = dict[str, Any]


def one_way(direction: str, mean_ms: float = 4.4, **settings: Any) -> State:
    whole = LinkSettings("broker", direction, 4.35, 2.2, "pareto", **settings).as_json()
    return {
        "settings": whole,
        "theory_ms": {"mean": 4.28, "sd": 1.8},
        "packets": 500,
        "dropped": 0,
        "duplicated": 0,
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
    ("looks", "says"),
    [
        ([], "not emulated to the end"),
        ([state(), {"fault": "it ended"}], "not emulated to the end"),
        ([state(), state(instance="b2")], "restarted"),
        ([state(links=[])], "no link is set"),
    ],
)
def test_a_link_that_was_not_there_to_the_end(looks: list[State], says: str) -> None:
    found = judge("wifi", looks, True)
    assert not found.verified
    assert found.required
    assert says in found.found


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (state(links=[one_way("egress", 2.0)]), "wanted 4.28"),
        (state(links=[one_way("egress", 12.0)]), "wanted 4.28"),
        (state(links=[{**one_way("egress"), "packets": 0}]), "no packet"),
        (state(links=[{**one_way("egress"), "overflowed": 3}]), "full queue"),
        (state(rtt_ms={"broker": {"n": 20, "mean": 0.2}}), "round trip"),
        (state(rtt_ms={"broker": {"n": 0}}), "no echo"),
    ],
)
def test_a_link_that_was_another_one(last: State, says: str) -> None:
    found = judge("wifi", [last], True)
    assert not found.verified
    assert says in found.note


def test_waiting_for_ones_turn_adds_to_a_delay_and_is_no_fault() -> None:
    assert judge("wifi", [state(links=[one_way("egress", 12.0, reorder=False)])], True).verified


def test_netem_is_judged_by_round_trips_alone() -> None:
    silent = [{**one_way(way), "delay_ms": {"n": 0}} for way in ("egress", "ingress")]
    assert judge("wifi", [state(backend="netem", links=silent)], True).verified
    assert not judge("wifi", [state(links=silent, rtt_ms={"broker": {"n": 20, "mean": 1.0}})], True).verified


def test_where_no_echo_may_be_sent_the_packets_decide() -> None:
    assert judge("wifi", [state(rtt_ms={"broker": None})], True).verified


def test_no_link_is_a_treatment_too() -> None:
    assert judge("none", [], False).verified
    left_behind = judge("none", [], True)
    assert not left_behind.verified
    assert "down" in left_behind.note


def test_a_look_at_nobody_says_so() -> None:
    assert "does not answer" in look("http://127.0.0.1:1")["fault"]
