"""Requests and answers in segments whose content is known: packets by paho, cut, reordered and sent again at random."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.mqtt_packets import Written

from looplab.capture import Application
from looplab.capture.connections import SYN
from looplab.capture.exchange import Exchange, topic_pattern
from looplab.capture.segments import Segment

PORT, BROKER = 1883, b"\x0a\x00\x00\x01"
START_S = 1_700_000_000.0
VERSIONS = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}
# Every packet has this identifier.
PUBREL_7 = b"\x62\x02\x00\x07"


class Client(Written):
    """A client of the application, which makes a packet at a time."""

    def connects(self) -> bytes:
        self._send_connect(60)
        return self.packets.pop()

    def publishes(self, topic: str, payload: bytes, qos: int, again: bool = False, number: int = 0) -> bytes:
        properties = None
        if self._protocol == mqtt.MQTTv5:
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = str(number).encode()
            properties.UserProperty = ("a", "b")
            properties.ContentType = "text"
        info = mqtt.MQTTMessageInfo(1)
        self._send_publish(7, topic.encode(), payload, qos, False, again, info, properties)
        return self.packets.pop()


@dataclass
class Talk:
    """The two streams of one connection as they are written, and the segments that they leave in."""

    name: str
    host: bytes
    port: int
    version: str
    segments: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Client(VERSIONS[self.version], self.name)
        self.sequences = {True: 4_294_967_000 + self.port, False: 77}
        for inbound in (True, False):
            self._segment(0.0, inbound, b"", SYN)
        self.write(0.001, True, self.client.connects())

    def write(self, at_s: float, inbound: bool, data: bytes, cuts: tuple[int, ...] = ()) -> None:
        """Send bytes at a time, in a segment for each piece between `cuts`, a microsecond apart."""
        places = [0, *sorted(cuts), len(data)]
        for number, (first, last) in enumerate(pairwise(places)):
            if first < last:
                self._segment(at_s + number * 1e-6, inbound, data[first:last])

    def _segment(self, at_s: float, inbound: bool, data: bytes, flags: int = 0) -> None:
        ends, hosts = (self.port, PORT), (self.host, BROKER)
        if not inbound:
            ends, hosts = ends[::-1], hosts[::-1]
        sequence = (self.sequences[inbound] % (1 << 32)) if flags & SYN else self.sequences[inbound]
        one = Segment(START_S + at_s, *ends, sequence % (1 << 32), data, hosts=hosts, flags=flags)
        one.acknowledged = self.sequences[not inbound] % (1 << 32)
        self.segments.append(one)
        self.sequences[inbound] += len(data) + bool(flags & SYN)


def application(key: str = "json:n", **changes: Any) -> Application:
    usual = {
        "request_topic": "app/request", "answer_topic": "app/answer", "since_s": START_S, "until_s": START_S + 1e4,
        "limit_s": 2.0, "most": 100_000,
    }  # fmt: skip
    return Application(**{**usual, "key": key, **changes})


def talks(version: str, qos: int, rng: random.Random, requests: int = 60, rate: float = 0.02) -> Iterator[Talk]:
    """Two requesters and a device, each request answered after 4 ms; bytes cut anywhere."""
    requesters = [Talk(f"asks-{n}", bytes((10, 0, 0, 2 + n)), 40_000 + n, version) for n in range(2)]
    device = Talk("device", b"\x0a\x00\x00\x09", 41_000, version)
    for number in range(requests):
        requester, at_s = requesters[number % 2], 1.0 + rate * number
        payload = json.dumps({"n": number, "filler": "x" * rng.choice([0, 10, 3000])}).encode()
        for talk, when_s, inbound, topic in (
            (requester, at_s, True, "app/request"),
            (device, at_s + 0.001, False, "app/request"),
            (device, at_s + 0.005, True, "app/answer"),
            (requesters[0], at_s + 0.006, False, "app/answer"),
            (requesters[1], at_s + 0.006, False, "app/answer"),
        ):
            packet = device.client.publishes(topic, payload, qos, number=number)
            cuts = rng.sample(range(1, len(packet)), min(len(packet) - 1, rng.choice([0, 0, 1, 4])))
            talk.write(when_s, inbound, packet, tuple(cuts))
            if qos == 2 and not inbound:
                talk.write(when_s + 1e-5, inbound, PUBREL_7)
    yield from (*requesters, device)


def in_order(found: list[Talk]) -> list[Segment]:
    return sorted((one for talk in found for one in talk.segments), key=lambda one: one.time_s)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_request_has_its_four_times(version: str, qos: int) -> None:
    rng = random.Random(qos)
    segments = in_order(list(talks(version, qos, rng)))
    for _ in range(200):
        # Some are overtaken by the next one of their stream, some are sent again.
        at = rng.randrange(10, len(segments) - 1)
        one, other = segments[at : at + 2]
        if not one.flags and rng.random() < 0.5:
            segments.insert(at + rng.randrange(1, 4), one)
        elif not one.flags and (one.source, one.destination) == (other.source, other.destination):
            segments[at : at + 2] = other, one
    found = Exchange.of(application(), segments, PORT)
    columns = found["columns"]
    assert len(columns["in_ns"]) == 60
    assert [one["client"] for one in found["clients"]] == ["asks-0", "device", "asks-1"]
    assert {one["version"] for one in found["clients"]} == {version}
    names = [one["client"] for one in found["clients"]]
    assert [names[one] for one in columns["requester"]] == ["asks-0", "asks-1"] * 30
    assert {names[one] for one in columns["device"]} == {"device"}
    assert set(columns["qos"]) == {qos}
    for first, second, wanted_ms in (("in_ns", "out_ns", 1), ("out_ns", "back_ns", 4), ("back_ns", "received_ns", 1)):
        for was, now in zip(columns[first], columns[second], strict=True):
            assert (now - was) / 1e6 == pytest.approx(wanted_ms, abs=0.05)
    assert found["packets"]["PUBLISH"] == 300
    assert found["foreign"] == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_at_qos_2_a_message_arrives_with_the_brokers_pubrel(version: str) -> None:
    requester, device = (Talk(name, b"\x0a\x00\x00\x02", 40_000 + len(name), version) for name in ("asks", "device"))
    for number, released in enumerate((True, True, False)):
        payload, at_s = json.dumps({"n": number}).encode(), 1.0 + number
        for talk, after_s, inbound, topic in (
            (requester, 0.0, True, "app/request"),
            (device, 0.001, False, "app/request"),
            (device, 0.008, True, "app/answer"),
            (requester, 0.009, False, "app/answer"),
        ):
            talk.write(at_s + after_s, inbound, device.client.publishes(topic, payload, 2, number=number))
            if not inbound and (talk is device or released):
                talk.write(at_s + after_s + 0.003, inbound, PUBREL_7)
    columns = Exchange.of(application(), in_order([requester, device]), PORT)["columns"]
    ms = [
        [round((columns[name][row] - columns["in_ns"][row]) / 1e6) for name in ("out_ns", "back_ns", "received_ns")]
        for row in range(3)
    ]
    assert ms[:2] == [[4, 8, 12]] * 2
    assert columns["received_ns"][2] == -1


@pytest.mark.parametrize("key", ["json:n", r'"n": (\d+)', "correlation", "order"])
def test_a_key_is_found_in_many_ways(key: str) -> None:
    found = Exchange.of(application(key), in_order(list(talks("5", 0, random.Random(1)))), PORT)
    received, back = found["columns"]["received_ns"], found["columns"]["back_ns"]
    assert len(received) == 60
    assert all(late > early > 0 for early, late in zip(back, received, strict=True))
    assert not found["counts"].get("unasked", 0)


def test_connections_from_before_the_capture_are_read_too() -> None:
    for version in VERSIONS:
        all_of_it = in_order(list(talks(version, 0, random.Random(2))))
        found = Exchange.of(application(), [one for one in all_of_it if one.time_s >= START_S + 1], PORT)
        assert found["columns"]["received_ns"].count(-1) == 0
        assert len(found["columns"]["in_ns"]) == 60
        assert found["clients"][0]["client"] == "10.0.0.2:40000"


def test_lost_messages_have_their_fates_and_room_is_counted() -> None:
    asks, device = Talk("asks", b"\x0a\0\0\2", 40_000, "3.1.1"), Talk("device", b"\x0a\0\0\3", 41_000, "3.1.1")
    for number in range(5):
        payload = json.dumps({"n": number}).encode()
        at_s = 1.0 + number * 0.02
        request, answer = (asks.client.publishes(f"app/{kind}", payload, 0) for kind in ("request", "answer"))
        asks.write(at_s, True, request)
        for talk, when_s, inbound, packet, needed in (
            (device, at_s + 0.001, False, request, 1), (device, at_s + 0.005, True, answer, 2),
            (asks, at_s + 0.006, False, answer, 3),
        ):  # fmt: skip
            if number >= needed:
                talk.write(when_s, inbound, packet)
    asks.write(2.0, True, asks.client.publishes("app/request", b"no json", 0))
    asks.write(2.1, True, asks.client.publishes("app/request", b'{"n": 99}', 0))
    found = Exchange.of(application(most=5), in_order([asks, device]), PORT)
    columns = found["columns"]
    assert [one == -1 for one in columns["out_ns"]] == [True, False, False, False, False]
    assert [one == -1 for one in columns["back_ns"]] == [True, True, False, False, False]
    assert [one == -1 for one in columns["received_ns"]] == [True, True, True, False, False]
    assert found["counts"]["without_key"] == 1
    assert found["counts"]["without_room"] == 1


def held_by_the_broker(nodelay: bool) -> dict[str, Any]:
    """At QoS 1 the broker's PUBACK waits for an acknowledgement, which the next request brings 20 ms later."""
    asks, device = Talk("asks", b"\x0a\0\0\2", 40_000, "3.1.1"), Talk("device", b"\x0a\0\0\3", 41_000, "3.1.1")
    late: list[tuple[float, bytes]] = []
    for number in range(50):
        payload, at_s = json.dumps({"n": number}).encode(), 1.0 + number * 0.02
        asks.write(at_s, True, asks.client.publishes("app/request", payload, 1))
        for when_s, packet in late:
            asks.write(at_s + when_s, False, packet)
        asks.write(at_s + 0.0002, False, b"\x40\x02\x00\x07")
        device.write(at_s + 0.0001, False, asks.client.publishes("app/request", payload, 0))
        device.write(at_s + 0.0045, True, asks.client.publishes("app/answer", payload, 0))
        answer = asks.client.publishes("app/answer", payload, 0)
        late = [] if nodelay else [(0.00005, answer)]
        if nodelay:
            asks.write(at_s + 0.0046, False, answer)
    return Exchange.of(application(), in_order([asks, device]), PORT)


def test_nagles_algorithm_is_seen_where_it_holds_and_nowhere_else() -> None:
    number, total_ns = held_by_the_broker(nodelay=False)["held"]["asks"]
    assert number >= 45
    assert total_ns / number / 1e6 == pytest.approx(15.5, abs=0.5)
    assert held_by_the_broker(nodelay=True)["held"] == {}


def test_an_answer_that_a_later_request_releases_was_held_by_its_client() -> None:
    """The acknowledgement of one answer comes with the next request: that very moment the answer before it leaves."""
    asks, device = Talk("asks", b"\x0a\0\0\2", 40_000, "3.1.1"), Talk("device", b"\x0a\0\0\3", 41_000, "3.1.1")
    for number in range(50):
        at_s = 1.0 + number * 0.02
        request = asks.client.publishes("app/request", json.dumps({"n": number}).encode(), 0)
        asks.write(at_s, True, request)
        device.write(at_s + 0.0001, False, request)
        if number:
            answer = asks.client.publishes("app/answer", json.dumps({"n": number - 1}).encode(), 0)
            device.write(at_s + 0.00015, True, answer)
            asks.write(at_s + 0.0002, False, answer)
    found = Exchange.of(application(), in_order([asks, device]), PORT)
    assert found["held_by"]["device"][0] >= 45
    assert found["held"] == {}


@pytest.mark.parametrize(("data", "what"), [(b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"GET /mqtt HTTP/1.1", "WebSocket")])
def test_other_protocols_are_named(data: bytes, what: str) -> None:
    talk = Talk("any", b"\x0a\0\0\2", 40_000, "3.1.1")
    talk.segments = talk.segments[:2]
    talk.sequences[True] = talk.segments[0].sequence + 1
    talk.write(0.1, True, data)
    assert Exchange.of(application(), talk.segments, PORT)["foreign"] == {what: 1}


@pytest.mark.parametrize(
    ("topic_filter", "topic", "groups"),
    [
        ("a/b", "a/b", ()), ("a/+/c", "a/x/c", ("x",)), ("a/+/c", "a/x/y/c", None), ("a/#", "a/b/c", ("b/c",)),
        ("a/#", "a", (None,)), ("#", "a/b", ("a/b",)), ("$share/g/a/+", "a/1", ("1",)), ("a.b", "axb", None),
    ],
)  # fmt: skip
def test_a_filter_matches_as_mqtt_says(topic_filter: str, topic: str, groups: tuple[str, ...] | None) -> None:
    found = topic_pattern(topic_filter).fullmatch(topic)
    assert (found.groups() if found else None) == groups
    assert (found is not None) == mqtt.topic_matches_sub(topic_filter.removeprefix("$share/g/"), topic)
