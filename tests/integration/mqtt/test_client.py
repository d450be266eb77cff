"""The MQTT client against a real broker, its death and its return; the counts of that broker."""

import contextlib
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import perf_counter_ns
from typing import Any

import paho.mqtt.publish
import pytest
from support import nonsense_broker as nonsense
from support.mqtt_packets import CONNACK, PUBLISH, SUBACK, packet, publish
from support.parts import HOST, LIMIT_S, Broker, until

from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.client_5 import Mqtt5Client
from looplab.mqtt.dial import RETRY_S, Target
from looplab.mqtt.packets import CORRELATION_DATA, property_bytes, with_length
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.system import processes
from looplab.treatments.broker import PublishCounts

MS = 1_000_000
Message = tuple[bytes, bytes, int]


class Driven(MqttClient):
    """A client on the test's thread that keeps what it hears of `echo/#`."""

    def __init__(self, port: int, **options: Any) -> None:
        self.heard: list[Message] = []
        target = Target(HOST, port, options.pop("tcp_nodelay", True))
        told = options.pop("on_message", self._hear), options.pop("on_connect", lambda: None)
        name = f"driven-{os.getpid()}-{perf_counter_ns()}"
        super().__init__(target, name, ClientOptions(**{"subscriptions": [("echo/#", 2)], **options}), *told)

    def _hear(self, topic: bytes, payload: bytes, qos: int) -> None:
        self.heard.append((topic, payload, qos))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload, _ in self.heard]

    def drive(self, condition: Callable[[], object], what: str) -> None:
        """Handle MQTT until `condition` holds."""
        until(lambda: self.flow(5) or condition(), what)

    def flow(self, duration_ms: int) -> None:
        self.wait(perf_counter_ns() + duration_ms * MS)


class Driven5(Driven, Mqtt5Client):
    """The same with MQTT 5; what it hears has its properties beside it."""

    def __init__(self, port: int, **options: Any) -> None:
        self.told: list[bytes] = []
        super().__init__(port, **options)

    def _hear(self, topic: bytes, payload: bytes, qos: int) -> None:
        super()._hear(topic, payload, qos)
        self.told.append(self.properties)


MakeClient = Callable[..., Driven]
KINDS = {"3.1.1": Driven, "5": Driven5}


@pytest.fixture
def make_client(at_end: contextlib.ExitStack) -> MakeClient:
    def make(port: int, version: str = "3.1.1", connects: bool = False, **options: Any) -> Driven:
        client = at_end.enter_context(contextlib.closing(KINDS[version](port, **options)))
        assert not connects or client.connect(LIMIT_S)
        return client

    return make


@pytest.fixture
def client(broker: Broker, make_client: MakeClient) -> Driven:
    """A connected client."""
    return make_client(broker.port, connects=True)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(("version", "alias"), [("3.1.1", False), ("5", False), ("5", True)])
def test_every_message_comes_once_and_in_order(
    broker: Broker, make_client: MakeClient, version: str, alias: bool, qos: int
) -> None:
    client = make_client(broker.port, version, connects=True, topic_alias=alias)
    assert (client.version, client.topic_alias) == (version, alias)
    payloads = [b"%d" % number for number in range(60)]
    for number, payload in enumerate(payloads):
        assert client.publish("echo/a", payload, qos)
        # mosquitto 2 throws away what a client sends at QoS 2 while many of its echoes are unconfirmed.
        client.drive(lambda sent=number + 1: len(client.heard) > sent - 5, "the echoes")
    client.drive(lambda: len(client.heard) >= 60, "all echoes")
    client.flow(50)
    assert client.heard == [(b"echo/a", payload, qos) for payload in payloads]
    assert client.disconnects == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_5_carries_properties_and_names_a_topic_again_after_a_reconnect(
    broker: Broker, make_client: MakeClient, qos: int
) -> None:
    client = make_client(broker.port, "5", connects=True, topic_alias=True)
    numbers = [property_bytes(CORRELATION_DATA, b"%d" % number) for number in range(6)]
    for count, properties in enumerate(numbers, 1):
        if count == 4:
            client.sock.shutdown(socket.SHUT_RDWR)
            client.drive(lambda: client.disconnects == 1 and client.subscribed, "connected again")
        before = client.sock.moved_bytes
        client.publish("echo/a", b"x", qos, properties=properties)
        client.drive(lambda wanted=count: len(client.heard) == wanted, "the echo")
        client.flow(20)
        # In: 2 bytes of header, 8 of topic, 5 of properties, 1 of payload. Out: 3 more, and no topic if it is known.
        moved = client.sock.moved_bytes - before - (35 if count in (1, 4) else 29)
        assert moved > 0 if qos else moved == 0
    assert client.told == list(map(with_length, numbers))
    assert client.disconnects == 1


def test_mqtt_5_brings_the_brokers_reason(broker: Broker, make_client: MakeClient) -> None:
    client = make_client(broker.port, "5", connects=True, topic_alias=True)
    client._paho.aliased = b"echo/a"
    client.publish("echo/a", b"x")
    client.drive(lambda: client.disconnects, "the end")
    assert client.last_loss.startswith("the broker ended it: ")


@pytest.mark.parametrize("nodelay", [True, False])
def test_tcp_nodelay_is_what_was_asked_for(broker: Broker, make_client: MakeClient, nodelay: bool) -> None:
    """As the kernel has it, after a reconnect as well."""
    client = make_client(broker.port, connects=True, tcp_nodelay=nodelay)
    for disconnects in (0, 1):
        client.drive(lambda wanted=disconnects: client.disconnects == wanted and client.connected, "connected")
        assert bool(client.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is nodelay
        local_port = client.sock.getsockname()[1]
        found = processes.tcp_sockets(os.getpid())
        assert [entry["tcp_nodelay"] for entry in found if entry["local_port"] == local_port] == [nodelay]
        client.sock.shutdown(socket.SHUT_RDWR)


def test_a_broker_that_refuses_is_told_and_not_hammered(
    start_broker: Callable[..., Broker], make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker(more="allow_anonymous false\n")
    client = make_client(broker.port)
    dials: list[tuple[str, int]] = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda to, timeout: (dials.append(to), connect(to, timeout))[1])
    assert not client.connect(5 * RETRY_S)
    assert "refused" in client.last_error
    assert "uthor" in client.last_error
    assert 2 <= len(dials) <= 7
    assert client.disconnects == 0


@pytest.mark.parametrize(
    ("version", "words", "told"),
    [
        ("3.1.1", packet(PUBLISH, b"\0"), "sent bytes that are not MQTT"),
        ("3.1.1", packet(PUBLISH, b"\xff\xffecho/a"), "sent bytes that are not MQTT"),
        # "I do not speak this version": paho would dial by itself.
        ("3.1.1", packet(CONNACK, b"\0\1"), "speaks no MQTT"),
        ("5", packet(CONNACK, b"\0\1"), "knows no MQTT 5"),
    ],
)
def test_nonsense_ends_the_connection_at_once(make_client: MakeClient, version: str, words: bytes, told: str) -> None:
    """Not only when paho's keepalive has run out: that is twice as long as this waits."""
    with contextlib.closing(nonsense.NonsenseBroker()) as broker:
        client = make_client(broker.port, version, keepalive_s=int(2 * LIMIT_S))
        visits = [visited(client, broker)]
        if not words.startswith(bytes([CONNACK])):
            assert visits[0].say(nonsense.WELCOME)
            # With something left to write it would find out by writing.
            client.drive(lambda: client.connected and not client.wants_write, "the first connection")
        assert visits[0].say(words)
        visits.append(visited(client, broker))
        assert told in client.last_error
        for visit in visits:
            visit.close()


def test_a_connection_is_announced_when_it_is_subscribed(make_client: MakeClient) -> None:
    """Not at the broker's acceptance, where no QoS is granted; and before a message that comes in with the grant."""
    announced: list[tuple[dict[str, int], list[Message]]] = []
    with contextlib.closing(nonsense.NonsenseBroker()) as broker:
        client = make_client(broker.port, on_connect=lambda: announced.append((dict(client.granted), [*client.heard])))
        with contextlib.closing(visited(client, broker)) as visit:
            assert visit.say(nonsense.WELCOME)
            client.drive(lambda: client.connected, "the broker's acceptance")
            client.flow(100)
            assert announced == []
            assert visit.say(packet(SUBACK, b"\0\1\1") + publish("first", "echo/1"))
            client.drive(lambda: announced and client.heard, "announcement and message")
    assert announced == [({"echo/#": 1}, [])]


def visited(client: Driven, broker: nonsense.NonsenseBroker) -> nonsense.Visit:
    """Drive the client on this thread until the broker, on another, sees it come."""
    with ThreadPoolExecutor(1) as helper:
        coming = helper.submit(lambda: (visit := broker.visit(), visit.begins()))
        client.drive(coming.done, "the client comes")
        visit, begun = coming.result()
    assert begun
    return visit


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_broker_that_dies_and_returns(broker: Broker, client: Driven, qos: int) -> None:
    broker.kill()
    client.drive(lambda: not client.connected, "the end is noticed")
    sent = client.publish("echo/a", b"while away", qos)
    assert not sent or qos
    client.flow(300)
    broker.start()
    client.drive(lambda: client.connected, "reconnected")
    client.publish("echo/a", b"after", qos)
    client.drive(lambda: b"after" in client.payloads, "the echo after the return")
    client.flow(100)
    # What waits at QoS 1 and 2 is sent after the return, and finds this end subscribed.
    assert client.payloads == ([b"while away"] if qos else []) + [b"after"]
    assert client.disconnects == 1


def test_every_report_is_taken_once_and_in_order(start_broker: Callable[..., Broker], at_end: ExitStack) -> None:
    broker = start_broker(more="allow_anonymous true\nsys_interval 1\n")
    counts = PublishCounts()
    at_end.callback(counts.stop)
    taken: list[tuple[int, int]] = []

    def enough() -> bool:
        paho.mqtt.publish.single("anything", "x", hostname=HOST, port=broker.port)
        taken.extend(counts.take(BROKERS[DEFAULT], HOST, broker.port))
        return len(taken) >= 2

    until(enough, "two reports of the broker", 30)
    assert taken == sorted(set(taken))
    assert taken[0][0] < taken[-1][0]
    # That broker has a page instead.
    assert counts.take(BROKERS["rabbitmq"], HOST, broker.port + 1) == []
