"""The MQTT proxy of the self-tests: which packets leave when, without sockets or clock."""

from __future__ import annotations

import random
import statistics

import pytest
from support.mqtt_packets import (
    DISCONNECT,
    PINGREQ,
    PUBLISH,
    MalformedPacketError,
    cut,
    packet,
    publish,
    random_splits,
)
from support.mqtt_proxy import TO_BROKER, Record, Rule
from support.mqtt_proxy.packets import read
from support.mqtt_proxy.queue import Direction, PacketQueue, Step

MS = 1_000_000
PING, FAREWELL = packet(PINGREQ), packet(DISCONNECT)


def rule(impairment: str, direction: str = TO_BROKER, **values: object) -> Rule:
    return Rule(impairment=impairment, direction=direction, **values)


# --- packets and rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_packets_are_the_same_however_the_stream_is_split(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice((0, 1, 126, 127, 128, 16_383, 16_384, 200_000, 2_097_152)) for _ in range(12)]
    packets = [packet(dice.randrange(16, 256), dice.randbytes(size)) for size in sizes]
    pending, found = bytearray(), []
    for piece in random_splits(b"".join(packets), dice):
        pending += piece
        found += cut(pending)
    assert (found, pending) == (packets, b"")


def test_a_malformed_length_comes_after_the_packets_before_it() -> None:
    cutting = cut(bytearray(PING + b"\x30\xff\xff\xff\xff\x01"))
    assert next(cutting) == PING
    with pytest.raises(MalformedPacketError):
        next(cutting)


@pytest.mark.parametrize(
    ("payload", "sequence"),
    [
        ("E-run-12", 12), ("T-20250101T000000Z-s5-3", 3), ("run,4,ok,100,21.5", 4),
        ("hello", None), ("E-run-x", None), ("E-" + "r" * 58 + "-123", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publish_is_read(payload: str, sequence: int | None, qos: int) -> None:
    found = read(publish(payload.ljust(200) if payload == "hello" else payload, qos=qos), 11)
    assert (found.kind, found.topic, found.qos, found.arrived_ns, found.sequence) == (
        PUBLISH,
        "request/",
        qos,
        11,
        sequence,
    )


@pytest.mark.parametrize(
    "raw", [packet(PUBLISH, b"\0\xffshort"), packet(PUBLISH, b"\0\2\xff\xfe"), publish("a", qos=3), packet(PUBLISH)]
)
def test_a_publish_without_a_readable_header_is_judged_by_no_rule(raw: bytes) -> None:
    assert read(raw, 0).kind == 0


@pytest.mark.parametrize(
    "values",
    [
        {"impairment": "lose", "every": 2}, {"impairment": "loss"}, {"impairment": "delay", "every": 3},
        {"impairment": "loss", "every": 2, "direction": "up"}, {"impairment": "loss", "every": 2, "delay_us": 5},
        {"impairment": "stall", "every": 2}, {"impairment": "loss", "every": 2, "away_ms": 1},
        {"impairment": "reorder", "indexes": (4, 5)}, {"impairment": "merge", "every": 1},
    ],
)  # fmt: skip
def test_bad_rules_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"rule|direction|impairment"):
        rule(**values)


# --- what leaves when, without sockets or clock ----------------------------------------------------------


class Bench:
    """A queue that is fed and emptied at times of the test's choice."""

    def __init__(self, *rules: Rule) -> None:
        self.record = Record(list(rules))
        self.direction = Direction(TO_BROKER, self.record)
        self.reconnect()

    def reconnect(self) -> None:
        self.queue = PacketQueue(self.direction)

    def arrive(self, *raw: bytes | str, at_ns: int = 0) -> None:
        for one in raw:
            self.queue.admit(read(publish(one) if isinstance(one, str) else one, at_ns))

    def leave(self, now_ns: int = 10**15) -> list[tuple[int, str]]:
        """Return what has left by now: its time, and its payloads or its step."""
        left = []
        while (due_ns := self.queue.next_due_ns()) is not None and (departure := self.queue.pop(now_ns)):
            for found in departure.packets:
                found.forwarded_ns = due_ns
            words = "+".join(found.head.decode() or "other" for found in departure.packets)
            left.append((due_ns, words or departure.step.name))
        return left

    def heads(self) -> list[str]:
        return [head for _, head in self.leave()]


@pytest.mark.parametrize(
    ("rules", "sent", "left", "reasons"),
    [
        ([rule("loss", indexes=(0, 2))], "abcd", "b d", ["", ""]),
        ([rule("loss", every=2), rule("loss", every=4)], "abcd", "a c", ["", "", "rule 0 had picked it already"]),
        ([rule("duplicate", every=2)], "abcd", "a b b c d d", ["", ""]),
        ([rule("reorder", indexes=(1, 4))], "abcdef", "a c b d f e", ["", ""]),
        ([rule("merge", indexes=(1, 4))], "abcdef", "a b+c d e+f", ["", ""]),
        ([rule("merge", every=2), rule("duplicate", indexes=(1,))], "abc", "a b+b+c", ["", ""]),
        (
            [rule("reorder", indexes=(0,)), rule("reorder", indexes=(1,))], "abc", "b a c",
            ["", "it ends the pair before it"],
        ),
        (
            [rule("reorder", indexes=(0,)), rule("loss", indexes=(1,)), rule("duplicate", indexes=(0, 1))],
            "abc", "c a a", ["", "", "", "rule 1 lost it"],
        ),
        (
            [rule("merge", indexes=(0,)), rule("disconnect", indexes=(0,))], "ab", "a RESET b",
            ["the connection is cut after it", "the connection ended first"],
        ),
    ],
)  # fmt: skip
def test_what_leaves_in_which_order(rules: list[Rule], sent: str, left: str, reasons: list[str]) -> None:
    bench = Bench(*rules)
    bench.arrive(*sent)
    assert bench.heads() == left.split()
    assert [injection.why_not_applied for injection in bench.record.injections] == reasons


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("impairment", ["loss", "duplicate", "reorder"])
def test_acknowledged_messages_are_left_alone_and_recorded(impairment: str, qos: int) -> None:
    bench = Bench(rule(impairment, indexes=(0,)))
    bench.arrive(publish("a", qos=qos), publish("b", qos=qos))
    assert bench.heads() == ["a", "b"]
    [injection] = bench.record.injected(impairment)
    assert f"QoS {qos}" in injection.why_not_applied


def test_other_topics_pass_a_held_message() -> None:
    bench = Bench(rule("reorder", indexes=(0,)))
    bench.arrive("a", publish("x", "else/"), PING, "b")
    assert bench.heads() == ["x", "other", "b", "a"]


@pytest.mark.parametrize("impairment", ["reorder", "merge"])
@pytest.mark.parametrize("farewell", [FAREWELL, b""])
def test_a_held_message_is_not_lost_when_no_later_one_comes(impairment: str, farewell: bytes) -> None:
    bench = Bench(rule(impairment, indexes=(0,)))
    bench.arrive("a")
    assert bench.leave() == []
    bench.arrive(*filter(None, [farewell]))
    bench.queue.end(Step.END, 5)
    assert bench.heads()[0] == "a"
    [injection] = bench.record.injected(impairment)
    assert "no later packet" in injection.why_not_applied


def test_probability_is_seeded_and_counting_goes_on_across_connections() -> None:
    found = []
    for seed in (9, 9, 8):
        bench = Bench(rule("loss", probability=0.2, seed=seed), rule("loss", topic="else/", indexes=(0,)))
        for number in range(1000):
            bench.arrive(f"E-1-{number}")
            if number == 500:
                bench.reconnect()
                bench.arrive(publish("x", "else/"))
        found.append(bench.record.sequences("loss", rule=0))
        assert bench.record.matched == [1000, 1]
        assert bench.heads() == [f"E-1-{number}" for number in range(501, 1000) if number not in found[-1]]
    assert found[0] == found[1] != found[2]
    assert 150 < len(found[0]) < 250


def test_a_delay_holds_everything_in_its_direction() -> None:
    bench = Bench(rule("delay", delay_us=500))
    bench.arrive("a", at_ns=1000)
    bench.arrive(PING, at_ns=2000)
    bench.arrive(publish("b", "else/"), at_ns=3000)
    bench.queue.end(Step.END, 4000)
    assert bench.leave(500_999) == []
    assert bench.leave() == [(501_000, "a"), (502_000, "other"), (503_000, "b"), (504_000, "END")]
    assert [injection.held_ns for injection in bench.record.applied("delay")] == [500_000]


def test_jitter_is_uniform_seeded_and_keeps_the_order() -> None:
    def run(seed: int, apart_ns: int) -> list[tuple[int, str]]:
        bench = Bench(rule("delay", delay_us=1000, jitter_us=2000, seed=seed))
        for number in range(1000):
            bench.arrive(f"E-1-{number}", at_ns=number * apart_ns)
        return bench.leave()

    delays_us = [(due_ns - number * 10 * MS) / 1000 for number, (due_ns, _) in enumerate(run(5, 10 * MS))]
    assert (min(delays_us) >= 1000, max(delays_us) <= 3000) == (True, True)
    assert statistics.mean(delays_us) == pytest.approx(2000, rel=0.03)
    assert statistics.stdev(delays_us) == pytest.approx(2000 / 12**0.5, rel=0.06)
    assert run(5, 1000) == run(5, 1000) != run(6, 1000)
    assert [head for _, head in run(5, 1000)] == [f"E-1-{number}" for number in range(1000)]


def test_a_stall_holds_its_whole_direction_from_its_message_on() -> None:
    bench = Bench(rule("delay", delay_us=5000), rule("stall", indexes=(1,), stall_ms=300))
    bench.arrive("a", "b")
    first = bench.queue
    bench.reconnect()
    bench.arrive("other client", at_ns=100 * MS)
    assert bench.leave() == [(305 * MS, "other client")]
    bench.queue = first
    bench.arrive(PING, at_ns=20 * MS)
    bench.arrive("c", at_ns=301 * MS)
    assert bench.leave() == [(5 * MS, "a"), (305 * MS, "b"), (305 * MS, "other"), (306 * MS, "c")]
    [stall] = bench.record.applied("stall")
    assert (stall.packet.head, stall.from_ns, stall.until_ns) == (b"b", 5 * MS, 305 * MS)


def test_a_stall_within_a_stall_begins_when_the_first_is_over() -> None:
    bench = Bench(rule("stall", indexes=(0, 2), stall_ms=100))
    for number, head in enumerate("abc"):
        bench.arrive(head, at_ns=number * MS)
    assert bench.leave() == [(100 * MS, "a"), (100 * MS, "b"), (200 * MS, "c")]
