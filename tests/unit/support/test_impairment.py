"""The impairment proxy against a real broker and real clients: its ledger must equal what they saw."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.mqtt_proxy import ImpairmentProxy, Rule, Truth, load_rules, parse_rules
from support.mqtt_proxy.framing import (
    Dialect,
    MalformedPacketError,
    PacketCutter,
    PacketReader,
    sequence_of,
    topic_matches,
)
from support.mqtt_proxy.lane import Lane, Link, Step
from support.mqtt_proxy.ledger import Ledger
from support.mqtt_proxy.rules import Direction
from support.places import ROOT
from support.ports import free_port

from looplab.errors import EXIT_MACHINE, EXIT_USAGE, LabError

HOST = "127.0.0.1"
WAIT_S = 20.0
MS = 1_000_000


# --- packets by hand -------------------------------------------------------------------------------------


def encoded_length(length: int) -> bytes:
    encoded = bytearray()
    while True:
        length, low = divmod(length, 128)
        encoded.append(low | 0x80 if length else low)
        if not length:
            return bytes(encoded)


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + encoded_length(len(body)) + body


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2, "big") + value.encode()


def publish(payload: str | bytes, topic: str = "request/", qos: int = 0, properties: bytes | None = None) -> bytes:
    payload = payload.encode() if isinstance(payload, str) else payload
    identifier = b"\0\7" if qos else b""
    extra = b"" if properties is None else encoded_length(len(properties)) + properties
    return packet(3, text(topic) + identifier + extra + payload, qos << 1)


def connect(level: int = 4, client: str = "hand") -> bytes:
    properties = b"\0" if level == 5 else b""
    return packet(1, text("MQTT") + bytes([level, 2, 0, 60]) + properties + text(client))


PINGREQ = packet(12)
DISCONNECT = packet(14)


def random_splits(stream: bytes, dice: random.Random) -> list[bytes]:
    """The stream in pieces of very different sizes, single bytes among them."""
    pieces = []
    while stream:
        size = dice.choice((1, 1, 2, 3, 7, 100, 1500, 70_000))
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


# --- framing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 256 * 1024, 2_097_151, 2_097_152])
def test_cutter_takes_every_width_of_remaining_length(length: int) -> None:
    whole = packet(3, bytes(length))
    cutter = PacketCutter()
    assert cutter.feed(whole[:-1] if length else whole[:1]) == []
    assert cutter.feed(whole[-1:] + PINGREQ) == [whole, PINGREQ]
    assert cutter.rest() == b""


@pytest.mark.parametrize("seed", range(20))
def test_cutter_gives_the_same_packets_however_the_stream_is_split(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice((0, 1, 20, 126, 127, 128, 5000, 16_384, 200_000)) for _ in range(30)]
    packets = [packet(dice.randrange(1, 16), dice.randbytes(size), dice.randrange(16)) for size in sizes]
    cutter = PacketCutter()
    found = [cut for piece in random_splits(b"".join(packets), dice) for cut in cutter.feed(piece)]
    assert found == packets


def test_cutter_takes_a_large_packet_byte_by_byte() -> None:
    whole = publish(bytes(256 * 1024))
    cutter = PacketCutter()
    found = [cut for at in range(len(whole)) for cut in cutter.feed(whole[at : at + 1])]
    assert found == [whole]


def test_cutter_stops_at_a_malformed_length_and_keeps_what_came_before() -> None:
    cutter = PacketCutter()
    assert cutter.feed(PINGREQ + b"\x30\xff\xff\xff\xff\x01" + PINGREQ) == [PINGREQ]
    assert cutter.malformed
    assert cutter.feed(PINGREQ) == []


def test_reader_finds_topic_quality_and_payload_head() -> None:
    reader = PacketReader(Dialect(), 3)
    plain = reader.read(publish("E-run-7"), 11)
    assert (plain.topic, plain.qos, plain.head, plain.sequence) == ("request/", 0, "E-run-7", 7)
    assert (plain.connection, plain.arrived_ns, plain.is_publish) == (3, 11, True)
    acknowledged = reader.read(publish("run,8,ok,1,2", "answer/", qos=1), 12)
    assert (acknowledged.topic, acknowledged.qos, acknowledged.sequence) == ("answer/", 1, 8)
    assert not reader.read(PINGREQ, 13).is_publish


def test_reader_follows_mqtt_5_properties_and_topic_aliases() -> None:
    reader = PacketReader(Dialect(), 0)
    reader.read(connect(level=5), 0)
    alias = b"\x23\x00\x05"
    others = b"\x01\x01" + b"\x02\0\0\0\x09" + b"\x26" + text("key") + text("value") + b"\x0b\x80\x01"
    first = reader.read(publish("E-1-0", properties=others + alias), 1)
    second = reader.read(publish("E-1-1", topic="", qos=1, properties=alias), 2)
    third = reader.read(publish("E-1-2", properties=b""), 3)
    assert [p.topic for p in (first, second, third)] == ["request/"] * 3
    assert [p.head for p in (first, second, third)] == ["E-1-0", "E-1-1", "E-1-2"]
    assert [p.uses_alias for p in (first, second, third)] == [True, True, False]


@pytest.mark.parametrize(
    "raw",
    [
        packet(3, b"\0\xffshort"),
        packet(3, b"\0\2\xff\xfe"),
        publish("E-1-0", qos=3),
        packet(3, b""),
        packet(1, b"\0"),
    ],
)
def test_reader_refuses_what_has_no_readable_header(raw: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        PacketReader(Dialect(), 0).read(raw, 0)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("request/", "request/", True),
        ("request/", "request", False),
        ("request/#", "request", True),
        ("request/#", "request/a/b", True),
        ("+/", "request/", True),
        ("+", "request/", False),
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a/b/d", False),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("#", "$SYS/x", False),
        ("#", "anything", True),
    ],
)
def test_topic_filters(topic_filter: str, topic: str, matches: bool) -> None:
    assert topic_matches(topic_filter, topic) is matches


@pytest.mark.parametrize(
    ("head", "sequence"),
    [
        ("E-run-12", 12),
        ("T-20250101T000000Z-s5-3", 3),
        ("run,4,ok,100,21.5", 4),
        ("hello", None),
        ("E-run-x", None),
        ("E-" + "r" * 58 + "-123", None),
    ],
)
def test_sequence_of_the_labs_payloads(head: str, sequence: int | None) -> None:
    assert sequence_of(head) == sequence


# --- rules -----------------------------------------------------------------------------------------------

LOSS = {"impairment": "loss", "direction": "to_broker", "indexes": [1]}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "not a list"),
        ([3], "rule 0: 3 is no object"),
        ([LOSS, {"direction": "to_broker"}], "rule 1: `impairment` is missing"),
        ([{**LOSS, "impairment": "lose"}], "`impairment` is 'lose'"),
        ([{**LOSS, "direction": "up"}], "`direction` is 'up'"),
        ([{**LOSS, "index": 3}], "unknown field `index`"),
        ([{**LOSS, "indexes": 3}], "`indexes` is 3"),
        ([{**LOSS, "indexes": [1.5]}], "`indexes` is [1.5]"),
        ([{**LOSS, "indexes": [-1]}], "below 0"),
        ([{**LOSS, "indexes": []}], "picks no packet"),
        ([{**LOSS, "every": True}], "`every` is True"),
        ([{**LOSS, "every": -2}], "`every` is -2"),
        ([{**LOSS, "probability": 1.5}], "`probability` is 1.5"),
        ([{**LOSS, "probability": float("nan")}], "`probability` is nan"),
        ([{**LOSS, "delay_us": 5}], "`delay_us` means nothing to a loss rule"),
        ([{**LOSS, "topic": 7}], "`topic` is 7"),
        ([{**LOSS, "topic": "a/#/b"}], "no MQTT topic filter"),
        ([{**LOSS, "topic": "a+"}], "no MQTT topic filter"),
        ([{**LOSS, "impairment": "duplicate", "probability": 0.5}], "means nothing to a duplicate rule"),
        ([{**LOSS, "impairment": "stall"}], "no `stall_ms`"),
        ([{**LOSS, "impairment": "stall", "stall_ms": -1}], "`stall_ms` is -1"),
        ([{**LOSS, "impairment": "stall", "stall_ms": 90_000}], "not between 0 and a minute"),
        ([{**LOSS, "impairment": "reorder", "indexes": [4, 5]}], "overlap"),
        ([{**LOSS, "impairment": "reorder", "indexes": [], "every": 1}], "overlap"),
        ([{"impairment": "delay", "direction": "to_broker", "delay_us": "5"}], "`delay_us` is '5'"),
        ([{"impairment": "delay", "direction": "to_broker", "delay_us": -5}], "`delay_us` is -5"),
        ([{"impairment": "delay", "direction": "to_broker", "scope": "all"}], "`scope` is 'all'"),
        ([{"impairment": "delay", "direction": "to_broker", "keep_order": False}], "does nothing"),
        ([{"impairment": "delay", "direction": "to_broker", "keep_order": "no"}], "not true or false"),
    ],
)
def test_bad_rules_say_what_is_wrong(document: object, says: str) -> None:
    with pytest.raises(LabError) as caught:
        parse_rules(document)
    assert says in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code == EXIT_USAGE


def test_rules_survive_their_file(tmp_path: Path) -> None:
    rules = [
        Rule(impairment="delay", direction="to_client", delay_us=5000, jitter_us=7.5, seed=3, keep_order=False),
        Rule(impairment="loss", direction="to_broker", topic="a/+", indexes=(9, 2, 2), every=4, probability=0.25),
        Rule(impairment="stall", direction="to_broker", indexes=(3,), stall_ms=300),
        Rule(impairment="disconnect", direction="to_broker", every=50, grace_ms=0),
    ]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([rule.to_dict() for rule in rules]))
    assert load_rules(path) == rules
    assert (rules[0].topic, rules[2].topic, rules[1].indexes) == ("answer/", "request/", (2, 9))


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read"), ("[{", "is no JSON")])
def test_an_unreadable_rules_file_is_named(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "rules.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LabError, match=says) as caught:
        load_rules(path)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == EXIT_USAGE


# --- scheduling, without sockets or clock ----------------------------------------------------------------


class LaneBench:
    """One lane fed and emptied at times of the test's own making."""

    def __init__(self, *rules: Rule) -> None:
        self.ledger = Ledger(list(rules))
        self.link = Link(Direction.TO_BROKER, self.ledger)
        self.reconnect()

    def reconnect(self) -> None:
        self.lane = Lane(self.link)
        self.reader = PacketReader(Dialect(), 0)

    def arrive(self, raw: bytes, at_ns: int) -> None:
        self.lane.admit(self.reader.read(raw, at_ns))

    def leave(self, now_ns: int = 10**15) -> list[tuple[int, str]]:
        """What has left by now: when it was due, and the payload or the step."""
        left = []
        while (due_ns := self.lane.next_due_ns()) is not None and (departure := self.lane.pop(now_ns)):
            found = departure.packet
            if found:
                found.forwarded_ns = due_ns
            left.append((due_ns, (found.head or "other") if found else departure.step.name))
        return left

    def heads(self) -> list[str]:
        return [head for _, head in self.leave()]

    def truth(self) -> Truth:
        return Truth(self.ledger.to_dict())


def rule(impairment: str, **values: object) -> Rule:
    return Rule(impairment=impairment, **{"direction": "to_broker", **values})


def test_a_delayed_direction_delays_everything_in_it() -> None:
    bench = LaneBench(rule("delay", delay_us=500))
    bench.arrive(publish("a"), 1000)
    bench.arrive(PINGREQ, 2000)
    bench.arrive(publish("b", topic="else/"), 3000)
    bench.lane.end(Step.END, 4000)
    assert bench.leave() == [(501_000, "a"), (502_000, "other"), (503_000, "b"), (504_000, "END")]
    assert [entry["head"] for entry in bench.truth().injections("delay")] == ["a"]


def test_a_delay_of_matching_packets_lets_the_others_pass_but_not_overtake() -> None:
    bench = LaneBench(rule("delay", delay_us=500, scope="matching"))
    bench.arrive(PINGREQ, 1000)
    bench.arrive(publish("a"), 2000)
    bench.arrive(publish("b", topic="else/"), 3000)
    bench.arrive(PINGREQ, 900_000)
    assert bench.leave() == [(1000, "other"), (502_000, "a"), (502_000, "b"), (900_000, "other")]


def test_nothing_leaves_before_it_is_due() -> None:
    bench = LaneBench(rule("delay", delay_us=500))
    bench.arrive(publish("a"), 0)
    assert bench.leave(499_999) == []
    assert bench.leave(500_000) == [(500_000, "a")]


def test_jitter_is_uniform_seeded_and_keeps_the_order() -> None:
    def run(seed: int) -> list[tuple[int, str]]:
        bench = LaneBench(rule("delay", delay_us=1000, jitter_us=2000, seed=seed))
        for number in range(1000):
            bench.arrive(publish(f"E-1-{number}"), number * 10 * MS)
        return bench.leave()

    left = run(seed=5)
    delays_us = [(due_ns - number * 10 * MS) / 1000 for number, (due_ns, _) in enumerate(left)]
    assert min(delays_us) >= 1000
    assert max(delays_us) <= 3000
    assert statistics.mean(delays_us) == pytest.approx(2000, rel=0.03)
    assert statistics.stdev(delays_us) == pytest.approx(2000 / 12**0.5, rel=0.06)
    assert left == run(seed=5) != run(seed=6)


@pytest.mark.parametrize("keep_order", [True, False])
def test_jitter_reorders_only_when_asked(keep_order: bool) -> None:
    bench = LaneBench(rule("delay", jitter_us=5000, keep_order=keep_order))
    heads = [f"E-1-{number}" for number in range(200)]
    for number, head in enumerate(heads):
        bench.arrive(publish(head), number * MS)
    found = bench.heads()
    assert (found == heads) is keep_order
    assert sorted(found) == sorted(heads)


def test_overtaking_stays_between_the_packets_that_keep_order() -> None:
    bench = LaneBench(rule("delay", jitter_us=5000, keep_order=False, scope="matching"))
    bench.arrive(connect(), 0)
    for number in range(50):
        bench.arrive(publish(f"E-1-{number}"), number)
    bench.arrive(DISCONNECT, 100)
    left = bench.leave()
    assert left[0][1] == "other"
    assert left[-1][1] == "other"
    assert [head for _, head in left[1:-1]] != [f"E-1-{number}" for number in range(50)]


def test_loss_picks_by_index_by_count_and_by_seed() -> None:
    bench = LaneBench(rule("loss", indexes=[0, 5], every=10), rule("loss", probability=0.2, seed=9))
    for number in range(1000):
        bench.arrive(publish(f"E-1-{number}"), number)
    arrived = {sequence_of(head) for head in bench.heads()}
    truth = bench.truth()
    by_count = {0, 5, *range(9, 1000, 10)}
    assert set(truth.sequences("loss", rule=0)) == by_count
    assert arrived == set(range(1000)) - by_count - set(truth.sequences("loss", rule=1))
    drawn = len(truth.injections("loss", rule=1))
    assert 150 < drawn < 250
    # What both rules picked is lost once.
    assert len(truth.sequences("loss")) == 1000 - len(arrived)


def test_indexes_are_counted_per_rule_and_across_reconnects() -> None:
    bench = LaneBench(rule("loss", indexes=[3]), rule("loss", topic="else/", indexes=[0]))
    for head in ("a", "b"):
        bench.arrive(publish(head), 0)
    bench.reconnect()
    bench.arrive(publish("c", topic="else/"), 1)
    for head in ("d", "e", "f"):
        bench.arrive(publish(head), 2)
    assert bench.heads() == ["d", "f"]
    truth = bench.truth()
    assert [(entry["rule"], entry["index"], entry["head"]) for entry in truth.applied("loss")] == [
        (1, 0, "c"),
        (0, 3, "e"),
    ]
    assert (truth.matched(0), truth.matched(1)) == (5, 1)


def test_duplicates_follow_their_original() -> None:
    bench = LaneBench(rule("duplicate", every=2))
    for head in "abcd":
        bench.arrive(publish(head), 0)
    assert bench.heads() == ["a", "b", "b", "c", "d", "d"]
    assert [entry["head"] for entry in bench.truth().applied("duplicate")] == ["b", "d"]


def test_reordering_holds_a_packet_until_the_next_has_left() -> None:
    bench = LaneBench(rule("reorder", indexes=[1, 4]))
    for at_ns, head in enumerate("abcdef"):
        bench.arrive(publish(head), at_ns)
        bench.arrive(publish(head.upper(), topic="else/"), at_ns)
    assert bench.heads() == list("aABcbCdDEfeF")
    swaps = bench.truth().applied("reorder")
    assert [(entry["head"], entry["overtaken_by"]["head"]) for entry in swaps] == [("b", "c"), ("e", "f")]


def test_reordering_two_neighbours_by_two_rules_happens_once() -> None:
    bench = LaneBench(rule("reorder", indexes=[0]), rule("reorder", indexes=[1]))
    for head in "abc":
        bench.arrive(publish(head), 0)
    assert bench.heads() == list("bac")
    reasons = [entry["not_applied_because"] for entry in bench.truth().injections("reorder")]
    assert reasons == ["", "it overtakes the packet before it"]


@pytest.mark.parametrize("farewell", ["packet", "end"])
def test_a_held_packet_is_not_lost_when_no_later_one_comes(farewell: str) -> None:
    bench = LaneBench(rule("reorder", indexes=[0]))
    bench.arrive(publish("a"), 0)
    assert bench.leave() == []
    if farewell == "packet":
        bench.arrive(DISCONNECT, 5)
    bench.lane.end(Step.END, 5)
    assert bench.heads()[0] == "a"
    [entry] = bench.truth().injections("reorder")
    assert not entry["applied"]
    assert "no later packet" in entry["not_applied_because"]


def test_a_lost_packet_cannot_overtake() -> None:
    bench = LaneBench(rule("reorder", indexes=[0]), rule("loss", indexes=[1]), rule("duplicate", indexes=[0, 1]))
    for head in "abc":
        bench.arrive(publish(head), 0)
    assert bench.heads() == list("caa")
    assert [entry["not_applied_because"] for entry in bench.truth().injections("duplicate")] == ["", "rule 1 lost it"]


@pytest.mark.parametrize("impairment", ["loss", "duplicate", "reorder"])
@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_messages_are_left_alone_and_counted(impairment: str, qos: int) -> None:
    bench = LaneBench(rule(impairment, indexes=[0]))
    for head in "ab":
        bench.arrive(publish(head, qos=qos), 0)
    assert bench.heads() == ["a", "b"]
    [entry] = bench.truth().injections(impairment)
    assert not entry["applied"]
    assert f"QoS {qos}" in entry["not_applied_because"]


def test_a_stall_holds_all_bytes_of_its_direction_and_lets_go_at_once() -> None:
    bench = LaneBench(rule("stall", indexes=[1], stall_ms=300))
    bench.arrive(publish("a"), 0)
    bench.arrive(publish("b"), 10 * MS)
    first_lane = bench.lane
    bench.reconnect()
    bench.arrive(publish("other client"), 100 * MS)
    assert bench.leave() == [(310 * MS, "other client")]
    bench.lane = first_lane
    bench.arrive(PINGREQ, 20 * MS)
    bench.arrive(publish("c"), 309 * MS)
    bench.arrive(publish("d"), 310 * MS)
    expected = [(0, "a"), (310 * MS, "b"), (310 * MS, "other"), (310 * MS, "c"), (310 * MS, "d")]
    assert bench.leave() == expected
    [entry] = bench.truth().applied("stall")
    assert (entry["stalled_from_ns"], entry["stalled_until_ns"]) == (10 * MS, 310 * MS)
    assert [waited["head"] for waited in entry["waited"]] == ["other client", "b", "c"]


def test_a_stall_begins_where_the_delayed_packet_would_have_left() -> None:
    bench = LaneBench(rule("delay", delay_us=5000), rule("stall", indexes=[1], stall_ms=100))
    for number, head in enumerate("abc"):
        bench.arrive(publish(head), number * MS)
    bench.arrive(publish("d"), 200 * MS)
    assert bench.leave() == [(5 * MS, "a"), (106 * MS, "b"), (106 * MS, "c"), (205 * MS, "d")]


def test_a_stall_within_a_stall_begins_when_the_first_is_over() -> None:
    bench = LaneBench(rule("stall", indexes=[0, 2], stall_ms=100))
    for number, head in enumerate("abc"):
        bench.arrive(publish(head), number * MS)
    assert bench.leave() == [(100 * MS, "a"), (100 * MS, "b"), (200 * MS, "c")]
    waited = [[w["head"] for w in entry["waited"]] for entry in bench.truth().applied("stall")]
    assert waited == [["a", "b", "c"], ["c"]]


def test_a_cut_follows_its_packet_and_leaves_the_rest_behind() -> None:
    bench = LaneBench(rule("delay", delay_us=1000), rule("disconnect", indexes=[1]))
    for head in "abc":
        bench.arrive(publish(head), 0)
    assert [bench.lane.pop(10 * MS).step for _ in range(3)] == [Step.FORWARD, Step.FORWARD, Step.RESET]
    assert [left.head for left in bench.lane.abandon()] == ["c"]


def test_queued_bytes_return_to_zero() -> None:
    bench = LaneBench(
        rule("reorder", every=3), rule("duplicate", every=4), rule("loss", every=5), rule("delay", delay_us=9)
    )
    for number in range(100):
        bench.arrive(publish(f"E-1-{number}"), number)
    assert bench.lane.queued_bytes > 0
    bench.lane.end(Step.END, 200)
    bench.leave()
    assert bench.lane.queued_bytes == 0


# --- real broker, real clients ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if program is None:
        message = "mosquitto is not installed: apt-get install mosquitto"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    folder = tmp_path_factory.mktemp("mosquitto")
    port = free_port()
    configuration = folder / "mosquitto.conf"
    configuration.write_text(f"listener {port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(configuration)], stdout=log, stderr=log)
    try:
        deadline_s = time.monotonic() + WAIT_S
        while True:
            try:
                socket.create_connection((HOST, port), 1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline_s, "mosquitto does not listen"
                time.sleep(0.02)
        yield HOST, port
    finally:
        process.terminate()
        process.wait(WAIT_S)


class Peer:
    """A paho client that is driven by the test's own thread."""

    def __init__(self, address: tuple[str, int], *topics: str, qos: int = 0, protocol: int = mqtt.MQTTv311) -> None:
        self.received: list[tuple[int, str, str]] = []
        self.connects = self.disconnects = self.acknowledged = self._subscribed = 0
        self._topics, self._qos = topics, qos
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=protocol)
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = lambda *_: self._count("disconnects")
        self.client.on_publish = lambda *_: self._count("acknowledged")
        self.client.on_subscribe = lambda *_: self._count("_subscribed")
        self.client.on_message = self._on_message
        self.client.connect(*address)
        self.finish_connecting()

    def finish_connecting(self) -> None:
        connects, subscribed = self.connects + 1, self._subscribed + len(self._topics)
        drive(lambda: self.connects >= connects and self._subscribed >= subscribed, self)

    def reconnect(self) -> None:
        self.client.reconnect()
        self.finish_connecting()

    def publish(self, payload: str, topic: str = "request/", qos: int = 0, **options: object) -> int:
        """Sends at once, in this thread; gives the time just before."""
        sent_ns = time.monotonic_ns()
        self.client.publish(topic, payload, qos, **options)
        return sent_ns

    def sequences(self) -> list[int | None]:
        return [sequence_of(payload) for _, topic, payload in self.received if topic != "done/"]

    def finished(self) -> bool:
        return any(topic == "done/" for _, topic, _ in self.received)

    def close(self) -> None:
        self.client.disconnect()

    def _count(self, name: str) -> None:
        setattr(self, name, getattr(self, name) + 1)

    def _on_connect(self, *_: object) -> None:
        self.connects += 1
        self.client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for topic in self._topics:
            self.client.subscribe(topic, self._qos)

    def _on_message(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        self.received.append((time.monotonic_ns(), message.topic, message.payload.decode()))


def drive(until: Callable[[], bool], *peers: Peer, poll_s: float = 0.2) -> None:
    """Serves the peers' sockets until a condition holds; looks at it after each message and each `poll_s`."""
    deadline_s = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < deadline_s, "what the test waits for did not come"
        by_socket = {peer.client.socket(): peer for peer in peers if peer.client.socket()}
        writing = [own for own, peer in by_socket.items() if peer.client.want_write()]
        readable, writable, _ = select.select(list(by_socket), writing, [], poll_s)
        for ready in readable:
            by_socket[ready].client.loop_read()
        for ready in writable:
            by_socket[ready].client.loop_write()


def send_all(
    broker: tuple[str, int], rules: list[Rule], count: int, qos: int = 0, interval_s: float = 0.0, at_least: int = 0
) -> tuple[Truth, Peer, list[int]]:
    """Publishes E-1-0 ... through the proxy; a subscriber beside it sees what arrives."""
    with ImpairmentProxy(broker, rules) as proxy:
        listener = Peer(broker, "request/", "done/", qos=qos)
        sender = Peer((proxy.host, proxy.port))
        sent_ns = []
        for number in range(count):
            sent_ns.append(sender.publish(f"E-1-{number}", qos=qos))
            drive(lambda number=number: not qos or sender.acknowledged > number, sender, listener)
            due_s = time.monotonic() + interval_s
            drive(lambda due_s=due_s: time.monotonic() >= due_s, sender, listener, poll_s=interval_s / 10)
        sender.publish("done", "done/", qos)
        drive(listener.finished, sender, listener)
        sender.close()
        drive(lambda: len(listener.received) >= at_least, listener)
        listener.close()
    return proxy.truth, listener, sent_ns


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_without_rules_everything_passes_in_order(broker: tuple[str, int], qos: int) -> None:
    truth, listener, _ = send_all(broker, [], 50, qos)
    assert listener.sequences() == list(range(50))
    assert truth.document["injections"] == []
    assert truth.document["undelivered"] == []
    assert truth.document["traffic"]["to_broker"]["publishes"] == 51


def test_loss_equals_what_the_subscriber_missed(broker: tuple[str, int]) -> None:
    rules = [rule("loss", indexes=[3, 50], every=20), rule("loss", probability=0.1, seed=4)]
    truth, listener, _ = send_all(broker, rules, 200)
    lost = truth.sequences("loss")
    assert {3, 50, 19, 39, 199} <= set(lost)
    assert len(truth.injections("loss", rule=1)) > 5
    assert listener.sequences() == sorted(set(range(200)) - set(lost))
    assert truth.matched(0) == 200


def test_duplicates_equal_what_the_subscriber_got_twice(broker: tuple[str, int]) -> None:
    truth, listener, _ = send_all(broker, [rule("duplicate", indexes=[0], every=7)], 50)
    twice = truth.sequences("duplicate")
    assert twice == [0, 6, 13, 20, 27, 34, 41, 48]
    assert listener.sequences() == sorted([*range(50), *twice])
    assert all(entry["copy_forwarded_ns"] >= entry["forwarded_ns"] for entry in truth.applied("duplicate"))


def test_reordering_equals_what_the_subscriber_saw(broker: tuple[str, int]) -> None:
    # The last one waits for a next one until the sender leaves, so it comes after `done`.
    truth, listener, _ = send_all(broker, [rule("reorder", indexes=[4], every=10)], 40, at_least=41)
    assert listener.received[-2][1] == "done/"
    expected = list(range(40))
    for swap in truth.applied("reorder"):
        at, later = swap["sequence"], swap["overtaken_by"]["sequence"]
        expected[at], expected[later] = later, at
        assert swap["forwarded_ns"] >= swap["overtaken_by"]["forwarded_ns"]
    assert listener.sequences() == expected
    assert truth.sequences("reorder") == [4, 9, 19, 29]
    assert [entry["sequence"] for entry in truth.injections("reorder") if not entry["applied"]] == [39]


def test_a_stall_equals_what_the_subscriber_waited_for(broker: tuple[str, int]) -> None:
    truth, listener, sent_ns = send_all(broker, [rule("stall", indexes=[10], stall_ms=300)], 60, interval_s=0.01)
    [stall] = truth.applied("stall")
    waited = [entry["sequence"] for entry in stall["waited"] if entry["sequence"] is not None]
    assert listener.sequences() == list(range(60))
    assert stall["sequence"] == waited[0] == 10
    assert waited == list(range(10, 10 + len(waited)))
    assert 1 < len(waited) < 50
    assert stall["stalled_until_ns"] - stall["stalled_from_ns"] == 300 * MS
    received_ns = [at_ns for at_ns, topic, _ in listener.received if topic == "request/"]
    for number in waited:
        assert sent_ns[number] < stall["stalled_until_ns"] <= received_ns[number]
    # The next one was sent, or at least arrived, after the stall.
    assert received_ns[waited[-1] + 1] >= stall["stalled_until_ns"]
    assert received_ns[10] - sent_ns[10] >= 300 * MS


@pytest.mark.parametrize("impairment", ["loss", "duplicate", "reorder"])
def test_acknowledged_messages_all_arrive(broker: tuple[str, int], impairment: str) -> None:
    truth, listener, _ = send_all(broker, [rule(impairment, every=2)], 20, qos=1)
    assert listener.sequences() == list(range(20))
    assert truth.applied(impairment) == []
    assert len(truth.injections(impairment)) == 10


def test_a_cut_is_seen_by_both_sides_and_counting_goes_on(broker: tuple[str, int]) -> None:
    with ImpairmentProxy(broker, [rule("disconnect", indexes=[5, 12])]) as proxy:
        listener = Peer(broker, "request/", "done/")
        sender = Peer((proxy.host, proxy.port))
        for number in range(20):
            sender.publish(f"E-1-{number}")
            if number in (5, 12):
                cuts = sender.disconnects + 1
                drive(lambda cuts=cuts: sender.disconnects == cuts, sender, listener)
                sender.reconnect()
        sender.publish("done", "done/")
        drive(listener.finished, sender, listener)
        sender.close()
        listener.close()
    truth = proxy.truth
    assert truth.sequences("disconnect") == [5, 12]
    assert [entry["connection"] for entry in truth.applied("disconnect")] == [0, 1]
    assert sender.connects == 3
    assert listener.sequences() == list(range(20))
    ends = [event["detail"] for event in truth.events("ended")]
    assert ends[:2] == ["reset by rule 0", "reset by rule 0"]


def test_both_directions_have_their_own_rules(broker: tuple[str, int]) -> None:
    rules = [
        rule("loss", indexes=[2]),
        rule("loss", direction="to_client", indexes=[0, 1]),
        rule("duplicate", direction="to_client", topic="lab/#", indexes=[0]),
    ]
    with ImpairmentProxy(broker, rules) as proxy:
        own = Peer((proxy.host, proxy.port), "request/", "answer/", "lab/status", "done/")
        for number in range(5):
            own.publish(f"E-1-{number}")
            own.publish(f"1,{number},ok,0,0", "answer/")
            own.publish("online", "lab/status")
        own.publish("done", "done/")
        drive(own.finished, own)
        own.close()
    by_topic = {topic: [p for _, t, p in own.received if t == topic] for topic in ("request/", "answer/", "lab/status")}
    assert [sequence_of(payload) for payload in by_topic["request/"]] == [0, 1, 3, 4]
    assert [sequence_of(payload) for payload in by_topic["answer/"]] == [2, 3, 4]
    assert by_topic["lab/status"] == ["online"] * 6
    truth = proxy.truth
    assert (truth.sequences("loss", rule=0), truth.sequences("loss", rule=1)) == ([2], [0, 1])


def test_several_clients_share_a_rules_count(broker: tuple[str, int]) -> None:
    with ImpairmentProxy(broker, [rule("loss", every=3)]) as proxy:
        listener = Peer(broker, "request/", "done/")
        senders = [Peer((proxy.host, proxy.port)) for _ in range(8)]
        for number in range(30):
            for client, sender in enumerate(senders):
                sender.publish(f"E-{client}-{number}")
        # A farewell from each comes after all it sent.
        for sender in senders:
            sender.publish("done", "done/")
        drive(lambda: sum(t == "done/" for _, t, _ in listener.received) == 8, listener, *senders)
        for peer in (listener, *senders):
            peer.close()
    truth = proxy.truth
    sent = sorted(f"E-{client}-{number}" for client in range(8) for number in range(30))
    got = [payload for _, topic, payload in listener.received if topic == "request/"]
    assert sorted(got + [entry["head"] for entry in truth.applied("loss")]) == sent
    assert len(truth.applied("loss")) == 80
    assert {entry["connection"] for entry in truth.injections("loss")} <= set(range(8))


def test_mqtt_5_topic_aliases_are_followed_and_not_broken(broker: tuple[str, int]) -> None:
    with ImpairmentProxy(broker, [rule("loss", every=2), rule("delay")]) as proxy:
        listener = Peer(broker, "request/", "done/")
        sender = Peer((proxy.host, proxy.port), protocol=mqtt.MQTTv5)
        alias = Properties(PacketTypes.PUBLISH)
        alias.TopicAlias = 1
        sender.publish("E-1-0", properties=alias)
        for number in range(1, 4):
            # paho insists on a topic; the broker takes the alias either way.
            sender.publish(f"E-1-{number}", properties=alias)
        for number in range(4, 8):
            sender.publish(f"E-1-{number}")
        sender.publish("done", "done/")
        drive(listener.finished, sender, listener)
        sender.close()
        listener.close()
    truth = proxy.truth
    assert truth.matched(0) == 8
    assert truth.sequences("loss") == [5, 7]
    assert [entry["sequence"] for entry in truth.injections("loss") if "alias" in entry["not_applied_because"]] == [
        1,
        3,
    ]
    assert listener.sequences() == [0, 1, 2, 3, 4, 6]


# --- accuracy of the delay -------------------------------------------------------------------------------

DELAY_US = 5000
PAIRS = 200
# Medians of what ought to be nothing.
TOLERANCE_US = 300


def overslept_us() -> float:
    """By how much this process is woken too late from a sleep as long as the delay: what the machine adds just now."""
    begun_ns = time.monotonic_ns()
    time.sleep(DELAY_US / 1e6)
    return (time.monotonic_ns() - begun_ns) / 1000 - DELAY_US


def test_the_delay_to_the_broker_is_true(broker: tuple[str, int]) -> None:
    """Through two proxies in turn, one without delay: the clients see the delay and nothing else differ."""
    with (
        ImpairmentProxy(broker, [rule("delay")]) as plain,
        ImpairmentProxy(broker, [rule("delay", delay_us=DELAY_US)]) as delayed,
    ):
        listener = Peer(broker, "request/")
        senders = [Peer((proxy.host, proxy.port)) for proxy in (plain, delayed)]
        took_us: list[list[float]] = [[], []]
        machine_us = []
        for number in range(PAIRS):
            for sender, took in zip(senders, took_us, strict=True):
                sent_ns = sender.publish(f"E-1-{number}")
                due = len(took_us[0]) + len(took_us[1]) + 1
                drive(lambda due=due: len(listener.received) == due, listener)
                took.append((listener.received[-1][0] - sent_ns) / 1000)
            machine_us.append(overslept_us())
        for peer in (listener, *senders):
            peer.close()
    seen_us = [later - sooner for sooner, later in zip(*took_us, strict=True)]
    assert_delay_is_true(seen_us, machine_us, plain.truth, delayed.truth)


def test_the_delay_to_the_client_is_true(broker: tuple[str, int]) -> None:
    """One message to two subscribers, one of them behind the delay: the difference is the delay."""
    observe = rule("delay", direction="to_client")
    delay = rule("delay", direction="to_client", delay_us=DELAY_US)
    with ImpairmentProxy(broker, [observe]) as plain, ImpairmentProxy(broker, [delay]) as delayed:
        sender = Peer(broker)
        listeners = [Peer((proxy.host, proxy.port), "answer/") for proxy in (plain, delayed)]
        machine_us = []
        for number in range(PAIRS):
            sender.publish(f"1,{number},ok,0,0", "answer/")
            drive(lambda due=number + 1: all(len(peer.received) == due for peer in listeners), *listeners)
            machine_us.append(overslept_us())
        for peer in (sender, *listeners):
            peer.close()
    pairs = zip(listeners[0].received, listeners[1].received, strict=True)
    seen_us = [(later[0] - sooner[0]) / 1000 for sooner, later in pairs]
    assert_delay_is_true(seen_us, machine_us, plain.truth, delayed.truth)


def assert_delay_is_true(seen_us: list[float], machine_us: list[float], plain: Truth, delayed: Truth) -> None:
    """Message by message: never shorter than asked for, longer by no more than the machine's own sleep at that time,
    and what the ledger says is what the clients saw. So a busy machine, which adds to all of them, is no fault."""
    held_us = [
        [(entry["forwarded_ns"] - entry["arrived_ns"]) / 1000 for entry in truth.applied("delay")]
        for truth in (plain, delayed)
    ]
    assert [len(held) for held in held_us] == [PAIRS, PAIRS]
    assert min(held_us[1]) >= DELAY_US
    added_us = [held - DELAY_US - machine for held, machine in zip(held_us[1], machine_us, strict=True)]
    assert statistics.median(added_us) < TOLERANCE_US
    told_us = [later - sooner for sooner, later in zip(*held_us, strict=True)]
    rest_us = [seen - told for seen, told in zip(seen_us, told_us, strict=True)]
    assert statistics.median(rest_us) == pytest.approx(0, abs=TOLERANCE_US)
    assert delayed.document["rules"][0]["held_us"]["p50"] == pytest.approx(statistics.median(held_us[1]), abs=0.01)


def test_jitter_reaches_each_message_as_recorded(broker: tuple[str, int]) -> None:
    """Joined by sequence: what each message took, less what the ledger says it was held, hardly varies."""
    rules = [rule("delay", delay_us=1000, jitter_us=8000, seed=2)]
    truth, listener, sent_ns = send_all(broker, rules, 150, interval_s=0.002)
    received_ns = {sequence_of(p): at_ns for at_ns, topic, p in listener.received if topic == "request/"}
    held = {entry["sequence"]: entry["forwarded_ns"] - entry["arrived_ns"] for entry in truth.applied("delay")}
    assert listener.sequences() == sorted(held) == list(range(150))
    rest_us = [(received_ns[number] - sent_ns[number] - held[number]) / 1000 for number in range(150)]
    middle_us = statistics.median(rest_us)
    # A quarter of what times that have nothing to do with the jitter would give.
    assert statistics.median(abs(rest - middle_us) for rest in rest_us) < 500
    assert statistics.pstdev(held.values()) > MS


# --- sockets: splits, ends and faults --------------------------------------------------------------------


class Ends:
    """Both ends of a connection through a proxy, as plain sockets."""

    def __init__(self, *rules: Rule) -> None:
        self.server = socket.create_server((HOST, 0))
        self.proxy = ImpairmentProxy((HOST, self.server.getsockname()[1]), rules)

    def __enter__(self) -> Ends:
        self.proxy.start()
        self.client, self.broker = self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        for own in (self.client, self.broker, self.server):
            own.close()
        self.proxy.stop()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection((self.proxy.host, self.proxy.port), WAIT_S)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.settimeout(WAIT_S)
        broker, _ = self.server.accept()
        broker.settimeout(WAIT_S)
        return client, broker

    @property
    def truth(self) -> Truth:
        return self.proxy.truth


def read_all(source: socket.socket, count: int | None = None) -> bytes:
    """Bytes up to a count, or to the end of the stream."""
    found = bytearray()
    while count is None or len(found) < count:
        part = source.recv(65536)
        if not part:
            break
        found += part
    return bytes(found)


def reset(own: socket.socket) -> None:
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    own.close()


@pytest.mark.parametrize("seed", range(4))
def test_any_split_of_any_packets_gives_the_same_stream_both_ways(seed: int) -> None:
    dice = random.Random(seed)

    def stream() -> bytes:
        sizes = [dice.choice((0, 1, 127, 128, 3000, 16_384, 256 * 1024)) for _ in range(20)]
        return connect() + b"".join(
            packet(dice.randrange(2, 16), dice.randbytes(size), dice.randrange(16)) for size in sizes
        )

    upward, downward = stream(), stream()
    with Ends(rule("delay", delay_us=dice.choice((0, 300)))) as ends:
        found: dict[str, bytes] = {}
        pairs = {"up": (ends.client, ends.broker, upward), "down": (ends.broker, ends.client, downward)}

        def send(source: socket.socket, data: bytes, own_dice: random.Random) -> None:
            for piece in random_splits(data, own_dice):
                source.sendall(piece)
            source.shutdown(socket.SHUT_WR)

        threads = [
            *(threading.Thread(target=send, args=(a, data, random.Random(seed))) for a, _, data in pairs.values()),
            *(
                threading.Thread(target=lambda n=name, b=b: found.update({n: read_all(b)}))
                for name, (_, b, _) in pairs.items()
            ),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    assert found == {"up": upward, "down": downward}
    assert ends.truth.document["traffic"]["to_broker"]["bytes"] == len(upward)
    assert [event["detail"] for event in ends.truth.events("ended")] == ["closed"]


def test_a_real_broker_understands_any_split(broker: tuple[str, int]) -> None:
    dice = random.Random(1)
    payloads = [f"E-1-{number}".ljust(dice.choice((8, 200, 30_000)), " ") for number in range(60)]
    stream = connect() + b"".join(publish(payload) for payload in payloads) + publish("done", "done/") + DISCONNECT
    with ImpairmentProxy(broker, [rule("loss", every=10)]) as proxy:
        listener = Peer(broker, "request/", "done/")
        with socket.create_connection((proxy.host, proxy.port), WAIT_S) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in random_splits(stream, dice):
                client.sendall(piece)
            drive(listener.finished, listener)
        listener.close()
    kept = [payload for number, payload in enumerate(payloads) if (number + 1) % 10]
    assert [payload for _, topic, payload in listener.received if topic == "request/"] == kept


def test_single_bytes_and_several_packets_in_one_segment() -> None:
    stream = publish("E-1-0") + PINGREQ + publish("E-1-1") + publish("E-1-2")
    with Ends(rule("loss", indexes=[1])) as ends:
        ends.client.sendall(stream)
        for at in range(len(stream)):
            ends.client.sendall(stream[at : at + 1])
        ends.client.shutdown(socket.SHUT_WR)
        found = read_all(ends.broker)
    assert found == publish("E-1-0") + PINGREQ + publish("E-1-2") + stream
    assert ends.truth.document["traffic"]["to_broker"] == {"packets": 8, "bytes": 2 * len(stream), "publishes": 6}


def test_a_slow_reader_gets_everything() -> None:
    stream = b"".join(publish(bytes([number]) * 256 * 1024) for number in range(48))
    with Ends() as ends:
        sender = threading.Thread(target=ends.client.sendall, args=(stream,))
        sender.start()
        time.sleep(0.3)
        found = read_all(ends.broker, len(stream))
        sender.join(WAIT_S)
    assert found == stream


def test_a_malformed_length_ends_the_connection_and_is_written_down() -> None:
    with Ends() as ends:
        ends.client.sendall(publish("E-1-0") + b"\x30\xff\xff\xff\xff\xff")
        assert read_all(ends.broker, len(publish("E-1-0"))) == publish("E-1-0")
        with pytest.raises(ConnectionResetError):
            read_all(ends.client)
        with pytest.raises(ConnectionResetError):
            read_all(ends.broker)
        other, other_broker = ends.connect()
        other.sendall(PINGREQ)
        assert read_all(other_broker, len(PINGREQ)) == PINGREQ
        other.close()
        other_broker.close()
    [event] = ends.truth.events("malformed_length")
    assert (event["connection"], "to_broker" in event["detail"]) == (0, True)


def test_a_malformed_publish_passes_and_is_written_down() -> None:
    odd = packet(3, b"\xff\xffno topic")
    with Ends(rule("loss", topic="#", every=1)) as ends:
        ends.client.sendall(odd)
        assert read_all(ends.broker, len(odd)) == odd
    assert len(ends.truth.events("malformed_packet")) == 1
    assert ends.truth.injections("loss") == []


def test_half_a_packet_at_the_end_is_passed_on() -> None:
    with Ends() as ends:
        ends.client.sendall(PINGREQ + publish("E-1-0")[:7])
        ends.client.shutdown(socket.SHUT_WR)
        assert read_all(ends.broker) == PINGREQ + publish("E-1-0")[:7]
        ends.broker.sendall(PINGREQ)
        ends.broker.shutdown(socket.SHUT_WR)
        assert read_all(ends.client) == PINGREQ
    assert len(ends.truth.events("half_packet")) == 1


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_reset_of_one_side_reaches_the_other(who: str) -> None:
    with Ends() as ends:
        dying, other = (ends.client, ends.broker) if who == "client" else (ends.broker, ends.client)
        dying.sendall(PINGREQ)
        assert read_all(other, len(PINGREQ)) == PINGREQ
        reset(dying)
        with pytest.raises(ConnectionResetError):
            read_all(other)
    assert len(ends.truth.events("reset_by_peer")) == 1


def test_a_closed_side_ends_the_other_after_the_delay_of_the_link() -> None:
    with Ends(rule("delay", delay_us=50_000)) as ends:
        ends.client.sendall(publish("E-1-0"))
        ends.client.close()
        assert read_all(ends.broker) == publish("E-1-0")
    [entry] = ends.truth.applied("delay")
    assert entry["forwarded_ns"] - entry["arrived_ns"] >= 50 * MS
    assert ends.truth.document["undelivered"] == []


def test_a_cut_forwards_its_packet_resets_both_sides_and_names_what_it_left_behind() -> None:
    heads = [f"E-1-{number}" for number in range(5)]
    with Ends(rule("disconnect", indexes=[2])) as ends:
        ends.client.sendall(b"".join(map(publish, heads)))
        passed = b"".join(map(publish, heads[:3]))
        assert read_all(ends.broker, len(passed)) == passed
        for side in (ends.broker, ends.client):
            with pytest.raises(ConnectionResetError):
                read_all(side)
    truth = ends.truth
    [cut] = truth.applied("disconnect")
    assert (cut["head"], cut["index"]) == ("E-1-2", 2)
    assert cut["reset_ns"] - cut["forwarded_ns"] >= 5 * MS
    assert [entry["head"] for entry in truth.undelivered("to_broker")] == heads[3:]


def test_what_is_sent_between_the_cut_and_the_reset_is_named_too() -> None:
    with Ends(rule("disconnect", indexes=[0], grace_ms=500)) as ends:
        ends.client.sendall(publish("E-1-0"))
        assert read_all(ends.broker, len(publish("E-1-0"))) == publish("E-1-0")
        ends.client.sendall(publish("E-1-1"))
        ends.broker.sendall(publish("1,0,ok,0,0", "answer/"))
        for side in (ends.broker, ends.client):
            with pytest.raises(ConnectionResetError):
                read_all(side)
    truth = ends.truth
    assert [entry["sequence"] for entry in truth.undelivered("to_broker")] == [1]
    assert [entry["sequence"] for entry in truth.undelivered("to_client")] == [0]
    assert truth.matched(0) == 1


def test_messages_for_a_client_that_left_are_named_as_undelivered() -> None:
    with Ends(rule("delay", direction="to_client", delay_us=30_000_000)) as ends:
        ends.broker.sendall(publish("1,0,ok,0,0", "answer/"))
        time.sleep(0.3)
        reset(ends.client)
        with pytest.raises(ConnectionResetError):
            read_all(ends.broker)
    assert [entry["sequence"] for entry in ends.truth.undelivered("to_client")] == [0]
    [entry] = ends.truth.injections("delay")
    assert (entry["applied"], entry["not_applied_because"]) == (False, "the connection ended first")


def test_what_waits_when_the_proxy_stops_is_undelivered() -> None:
    with Ends(rule("delay", delay_us=30_000_000)) as ends:
        ends.client.sendall(publish("E-1-0"))
        other, other_broker = ends.connect()
        other.sendall(publish("E-2-0"))
        time.sleep(0.2)
        ends.proxy.stop()
        other.close()
        other_broker.close()
    assert {entry["head"] for entry in ends.truth.undelivered("to_broker")} == {"E-1-0", "E-2-0"}


def test_an_absent_broker_resets_the_client_and_a_later_one_is_found() -> None:
    port = free_port()
    with ImpairmentProxy((HOST, port)) as proxy:
        with socket.create_connection((proxy.host, proxy.port), WAIT_S) as client:
            client.settimeout(WAIT_S)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with (
            socket.create_server((HOST, port)) as server,
            socket.create_connection((proxy.host, proxy.port), WAIT_S) as client,
        ):
            client.sendall(PINGREQ)
            server.settimeout(WAIT_S)
            with server.accept()[0] as late:
                late.settimeout(WAIT_S)
                assert read_all(late, len(PINGREQ)) == PINGREQ
    [event] = proxy.truth.events("broker_unreachable")
    assert "ECONNREFUSED" in event["detail"]


def test_many_connections_come_and_go() -> None:
    with Ends() as ends:
        for number in range(150):
            client, broker = ends.connect()
            client.sendall(publish(f"E-1-{number}"))
            if number % 3 == 0:
                reset(client)
            else:
                client.close()
            broker.close()
        pairs = [ends.connect() for _ in range(60)]
        for client, broker in pairs:
            client.sendall(PINGREQ)
            assert read_all(broker, len(PINGREQ)) == PINGREQ
        for client, broker in pairs:
            client.close()
            broker.close()
    accepted = {event["connection"] for event in ends.truth.events("accepted")}
    ended = {event["connection"] for event in ends.truth.events("ended")}
    assert accepted == ended == set(range(211))


# --- the command -----------------------------------------------------------------------------------------


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "support.mqtt_proxy", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"},
        check=False,
    )


def test_the_command_refuses_bad_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('[{"impairment": "loss", "direction": "to_broker"}]')
    done = run_command(
        "--listen", f"{HOST}:0", "--to", f"{HOST}:1", "--rules", str(rules), "--ledger", str(tmp_path / "l.json")
    )
    assert done.returncode == EXIT_USAGE
    assert f"{rules}, rule 0: the loss rule picks no packet" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("listen", "to", "says"),
    [
        ("1883", f"{HOST}:1", "--listen is '1883'"),
        (f"{HOST}:0", f"{HOST}:99999", "--to is"),
        (f"{HOST}:0", HOST, "--to"),
    ],
)
def test_the_command_refuses_bad_addresses(tmp_path: Path, listen: str, to: str, says: str) -> None:
    done = run_command("--listen", listen, "--to", to, "--ledger", str(tmp_path / "l.json"))
    assert (done.returncode, says in done.stderr) == (EXIT_USAGE, True)


def test_the_command_refuses_an_unwritable_ledger(tmp_path: Path) -> None:
    done = run_command("--listen", f"{HOST}:0", "--to", f"{HOST}:1", "--ledger", str(tmp_path / "none" / "l.json"))
    assert (done.returncode, "cannot be written" in done.stderr) == (EXIT_USAGE, True)


def test_a_port_in_use_is_said_in_one_sentence() -> None:
    with (
        socket.create_server((HOST, 0)) as taken,
        pytest.raises(LabError, match="cannot listen on") as caught,
        ImpairmentProxy((HOST, 1), listen=(HOST, taken.getsockname()[1])),
    ):
        pass
    assert caught.value.exit_code == EXIT_MACHINE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_writes_its_ledger_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    ledger = tmp_path / "ledger.json"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "support.mqtt_proxy", "--listen", f"{HOST}:0"),
            *("--to", f"{HOST}:{free_port()}", "--ledger", str(ledger)),
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"},
    ) as process:
        assert process.stdout.readline().startswith(b"listening on 127.0.0.1:")
        assert not ledger.exists()
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
    assert Truth.load(ledger).document["clock"] == "CLOCK_MONOTONIC"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.json"]
