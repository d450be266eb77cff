"""The link emulator's decisions without packets: settings, draws, order, figures, tc's and iptables' words."""

import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from looplab.errors import LabError, UsageError
from looplab.link.distributions import Direction, parse_table, sampler, theory
from looplab.link.figures import Delays
from looplab.link.netem import flow_of, netem_words, tc_batch
from looplab.link.network import parse_rto_min
from looplab.link.settings import MAX_LINKS, LinkSettings, from_environment, parse_links

DRAWS = 40_000


def link(**changes: Any) -> LinkSettings:
    return LinkSettings(**{"peer": "broker", "direction": "egress", **changes})


def direction(seed: int = 7, **changes: Any) -> Direction:
    return Direction(link(**changes), random.Random(seed))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"distribution": "gauss"}, "distribution='gauss'"),
        ({"delay_ms": 10_001}, "delay_ms=10001"),
        ({"delay_ms": float("nan")}, "delay_ms=nan"),
        ({"delay_ms": True}, "delay_ms=True"),
        ({"jitter_ms": 1}, "jitter_ms=1"),
        ({"loss_percent": "much"}, "loss_percent='much'"),
        ({"reorder": "yes"}, "reorder='yes'"),
        ({"speed": 1}, "'speed'"),
        ({"direction": "up"}, "direction='up'"),
        ({"peer": "two words"}, "peer='two words'"),
    ],
)
def test_a_value_no_link_can_have_is_named(change: dict[str, object], names: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_links([{"peer": "broker", "direction": "egress", **change}])
    assert names in caught.value.message
    assert caught.value.remedy


BAD_VARIABLES = [
    {"LINK_DELAY_MS": "fast"}, {"LINK_DISTRIBUTION": "gauss"}, {"LINK_DIRECTION": "up"}, {"LINK_REORDER": "maybe"},
]  # fmt: skip
WRONG = {
    parse_links: [{}, [7], [{"peer": "b"}], [{"direction": "egress"}], None],
    from_environment: [{"LINK_PEER": "broker", **variables} for variables in BAD_VARIABLES],
    parse_rto_min: ["-5", "1.5", "120001", "much"],
}


@pytest.mark.parametrize(("read", "given"), [(read, given) for read, all_given in WRONG.items() for given in all_given])
def test_what_cannot_be_read_is_wrong_use(read: Callable[[Any], object], given: object) -> None:
    with pytest.raises(UsageError):
        read(given)


def test_a_direction_stands_once_and_there_are_not_too_many() -> None:
    entry = {"peer": "broker", "direction": "egress"}
    with pytest.raises(LabError, match="twice"):
        parse_links([entry, entry])
    with pytest.raises(LabError, match="more than one emulator carries"):
        parse_links([{**entry, "peer": f"b{n}"} for n in range(MAX_LINKS + 1)])


def test_settings_survive_their_json() -> None:
    given = link(delay_ms=2.5, jitter_ms=1.0, distribution="pareto", reorder=False)
    assert parse_links([given.as_json()]) == [given]


def test_the_environment_sets_both_directions_alike() -> None:
    links = from_environment({"LINK_PEER": "broker", "LINK_DELAY_MS": "4.5", "LINK_JITTER_MS": "2", "LINK_LOSS": ""})
    assert [entry.direction for entry in links] == ["egress", "ingress"]
    assert {entry.distribution for entry in links} == {"normal"}
    assert {entry.delay_ms for entry in links} == {4.5}


def test_the_environment_may_set_one_direction_or_nothing() -> None:
    assert from_environment({}) == []
    (only,) = from_environment({"LINK_PEER": "b", "LINK_DIRECTION": "ingress", "LINK_REORDER": "off"})
    assert (only.direction, only.reorder, only.distribution) == ("ingress", False, "constant")


def test_a_table_may_hold_comments() -> None:
    assert parse_table("# a comment\n 1 -2\n3 # 4\n") == (1, -2, 3)


def test_no_delay_is_below_zero_and_theory_knows() -> None:
    wide = link(delay_ms=1.0, jitter_ms=5.0, distribution="uniform")
    draw = sampler(wide, random.Random(2))
    delays = [draw() / 1e6 for _ in range(DRAWS)]
    assert min(delays) == 0.0
    assert statistics.fmean(delays) == pytest.approx(theory(wide)[0], rel=0.03)
    assert theory(wide)[0] == pytest.approx(1.8, rel=0.001)


def test_order_is_kept_when_asked_for_and_only_then() -> None:
    jitter: dict[str, Any] = {"delay_ms": 20.0, "jitter_ms": 5.0, "distribution": "uniform"}
    arrivals = range(0, 1_000_000_000, 1_000_000)
    ordered, free = direction(**jitter, reorder=False), direction(**jitter)
    due = [ordered.due_ns(at) for at in arrivals]
    assert due == sorted(due)
    due = [free.due_ns(at) for at in arrivals]
    assert due != sorted(due)


@pytest.mark.parametrize("percent", [0.0, 3.0, 100.0])
def test_losses_have_their_share(percent: float) -> None:
    chosen = direction(loss_percent=percent)
    allowed = 4 * (DRAWS * percent / 100 * (1 - percent / 100)) ** 0.5
    assert abs(sum(chosen.loses() for _ in range(DRAWS)) - DRAWS * percent / 100) <= allowed


def test_figures_agree_with_the_values_they_are_of() -> None:
    rng = random.Random(3)
    values = [int(rng.gauss(20e6, 5e6)) for _ in range(5000)]
    found = Delays(values).as_json()
    clamped = sorted(max(0, value) for value in values)
    assert found["n"] == len(values)
    assert found["mean"] == pytest.approx(statistics.fmean(clamped) / 1e6, abs=1e-4)
    assert found["sd"] == pytest.approx(statistics.stdev(clamped) / 1e6, abs=1e-3)
    assert (found["min"], found["max"]) == (round(clamped[0] / 1e6, 4), round(clamped[-1] / 1e6, 4))
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert found[name] == pytest.approx(clamped[int(share * len(values))] / 1e6, abs=0.06)


def test_figures_of_nothing_one_and_very_long_delays() -> None:
    assert Delays().as_json() == {"n": 0, **dict.fromkeys(("mean", "sd", "min", "p50", "p95", "p99", "max"))}
    assert Delays([-5]).as_json()["max"] == 0.0
    assert Delays([0, 40 * 10**9]).as_json()["max"] == 40_000.0


def test_netem_gets_the_same_link_in_its_own_words() -> None:
    assert netem_words(link(delay_ms=2.5))[2:] == ["delay", "2500us"]
    normal = netem_words(link(delay_ms=20, jitter_ms=5, distribution="normal", loss_percent=1.5))
    assert normal[2:] == ["delay", "20000us", "5000us", "distribution", "normal", "loss", "random", "1.5%"]
    assert "distribution" not in netem_words(link(delay_ms=20, jitter_ms=5, distribution="uniform"))
    # Any rate keeps the order.
    assert netem_words(link(delay_ms=1, reorder=False))[-2] == "rate"


def test_each_link_has_a_queue_and_other_packets_pass() -> None:
    lines = tc_batch("eth0", [link(delay_ms=1), link(peer="other", delay_ms=2)]).splitlines()
    assert lines[0].startswith("qdisc add dev eth0 root handle 1: prio bands 3 priomap 0 0")
    queues = [line.partition(" limit ")[0] for line in lines[1:]]
    assert queues == [
        "qdisc add dev eth0 parent 1:2 handle 101: netem", "qdisc add dev eth0 parent 1:3 handle 102: netem"
    ]  # fmt: skip
    # tc's numbers are hexadecimal.
    assert flow_of(14) == "1:10"


def test_the_retransmission_time_out_is_read() -> None:
    assert parse_rto_min("") == 0
    assert parse_rto_min(" 60000 ") == 60_000
