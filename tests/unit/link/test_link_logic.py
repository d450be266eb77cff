"""The link emulator's decisions without packets: settings, draws, order, figures, tc's and iptables' words."""

import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from looplab.errors import UsageError
from looplab.link.distributions import Delays, sampler, theory
from looplab.link.netem import flow_of, netem_words, tc_batch
from looplab.link.settings import MAX_LINKS, LinkSettings, parse_links, read_links
from looplab.spec.reader import Reader

DRAWS = 40_000


def link(**changes: Any) -> LinkSettings:
    return LinkSettings(**{"peer": "broker", "direction": "egress", **changes})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("distribution", "gauss"), ("delay_ms", 10_001), ("delay_ms", float("nan")), ("jitter_ms", 1),
        ("loss_percent", 101), ("reorder", "yes"), ("direction", "up"), ("peer", "two words"),
    ],
)  # fmt: skip
def test_a_value_no_link_can_have_is_named(name: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        parse_links([{"peer": "broker", "direction": "egress", name: value}])
    assert f"{name}={value!r}" in caught.value.message
    assert caught.value.remedy


def from_environment(environment: dict[str, str]) -> list[LinkSettings]:
    return read_links(Reader(environment, ""))


WRONG = {
    parse_links: [{}, [7], [{"peer": "b"}], [{"peer": 7, "direction": "egress"}], None, [{}] * (MAX_LINKS + 1)],
    from_environment: [{"LINK_PEER": "broker", "LINK_DELAY_MS": "fast"}, {"LINK_PEER": "two words"}],
}


@pytest.mark.parametrize(("read", "given"), [(read, given) for read, all_given in WRONG.items() for given in all_given])
def test_what_cannot_be_read_is_wrong_use(read: Callable[[Any], object], given: object) -> None:
    with pytest.raises(UsageError):
        read(given)


def test_the_environment_sets_both_directions_alike_or_none() -> None:
    links = from_environment({"LINK_PEER": "broker", "LINK_DELAY_MS": "4.5", "LINK_JITTER_MS": "2", "LINK_LOSS": ""})
    assert [(one.direction, one.distribution, one.delay_ms) for one in links] == [
        ("egress", "normal", 4.5), ("ingress", "normal", 4.5)
    ]  # fmt: skip
    assert from_environment({}) == []


def test_no_delay_is_below_zero_and_theory_knows() -> None:
    wide = link(delay_ms=1.0, jitter_ms=5.0, distribution="uniform")
    draw = sampler(wide, random.Random(2))
    delays = [draw() / 1e6 for _ in range(DRAWS)]
    assert min(delays) == 0.0
    assert statistics.fmean(delays) == pytest.approx(theory(wide)[0], rel=0.03)
    assert theory(wide)[0] == pytest.approx(1.8, rel=0.001)


def test_figures_agree_with_the_values_they_are_of() -> None:
    rng = random.Random(3)
    values = [int(rng.gauss(20e6, 5e6)) for _ in range(5000)]
    delays = Delays()
    assert delays.as_json() == {"n": 0, "mean": None, "sd": None, "min": None}
    for value in values:
        delays.add(value)
    clamped = [max(0, value) / 1e6 for value in values]
    found = delays.as_json()
    assert (found["n"], found["min"]) == (len(values), round(min(clamped), 4))
    assert found["mean"] == pytest.approx(statistics.fmean(clamped), abs=1e-4)
    assert found["sd"] == pytest.approx(statistics.stdev(clamped), abs=1e-3)


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
