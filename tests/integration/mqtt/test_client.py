"""The MQTT link against a real broker, its death and its return."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns

import pytest
from support import nonsense_broker as nonsense
from support.parts import HOST, LIMIT_S, Broker, Listener, free_port, until

from looplab.experiments.loop.document import COLUMNS
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST
from looplab.experiments.loop.request_loop import Measurement
from looplab.mqtt.client import RETRY_S, MqttClient
from looplab.run.samples import ANSWERED, LATE, NOT_SENT, WAITING, SampleStore
from looplab.system import processes

MS = 1_000_000
MakeLink = Callable[..., MqttClient]


@pytest.fixture
def make_link() -> Iterator[MakeLink]:
    links: list[MqttClient] = []

    def make(port: int, heard: list[tuple[bytes, bytes, int]] | None = None, **options: object) -> MqttClient:
        settings: dict[str, object] = {"tcp_nodelay": True, "subscriptions": [("echo/#", 2)]}
        settings["on_message"] = lambda *message: None if heard is None else heard.append(message)
        link = MqttClient(HOST, port, f"link-{len(links)}-{os.getpid()}", **{**settings, **options})  # type: ignore[arg-type]
        links.append(link)
        return link

    yield make
    for link in links:
        link.close()


def serve(link: MqttClient, condition: Callable[[], object], what: str) -> None:
    """Drive `link` until `condition` holds."""
    end_ns = perf_counter_ns() + int(LIMIT_S * 1e9)
    while not condition():
        assert perf_counter_ns() < end_ns, f"waited in vain: {what}"
        link.wait(perf_counter_ns() + 5 * MS)


def flow(link: MqttClient, duration_ms: int) -> None:
    link.wait(perf_counter_ns() + duration_ms * MS)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_message_comes_once_and_in_order(broker: Broker, make_link: MakeLink, qos: int) -> None:
    heard: list[tuple[bytes, bytes, int]] = []
    link = make_link(broker.port, heard)
    assert link.connect(LIMIT_S)
    payloads = [b"%d" % number for number in range(200)]
    for number, payload in enumerate(payloads):
        assert link.publish("echo/a", payload, qos)
        # Some at a time: mosquitto 2 throws away what a client sends at QoS 2 while many of its echoes are
        # unconfirmed.
        serve(link, lambda sent=number + 1: len(heard) > sent - 5, "the echoes")  # type: ignore[misc]
    serve(link, lambda: len(heard) >= 200, "all echoes")
    flow(link, 50)
    assert heard == [(b"echo/a", payload, qos) for payload in payloads]
    assert link.disconnects == 0


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 300_000])
def test_payloads_of_any_size_pass_the_read_ahead(broker: Broker, make_link: MakeLink, size: int) -> None:
    heard: list[tuple[bytes, bytes, int]] = []
    link = make_link(broker.port, heard)
    assert link.connect(LIMIT_S)
    whole = os.urandom(size)
    for payload in (whole, b"after"):
        link.publish("echo/a", payload, 1)
    serve(link, lambda: len(heard) >= 2, "both echoes")
    assert [payload for _, payload, _ in heard] == [whole, b"after"]


@pytest.mark.parametrize("nodelay", [True, False])
def test_tcp_nodelay_is_what_was_asked_for(broker: Broker, make_link: MakeLink, nodelay: bool) -> None:
    link = make_link(broker.port, tcp_nodelay=nodelay)
    assert link.connect(LIMIT_S)
    assert link.sock is not None
    assert bool(link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is nodelay
    local_port = link.sock.getsockname()[1]
    found = processes.tcp_sockets(os.getpid())
    assert isinstance(found, list)
    (entry,) = [entry for entry in found if entry["local_port"] == local_port]
    assert entry["tcp_nodelay"] is nodelay
    # After a reconnect as well.
    link.sock.shutdown(socket.SHUT_RDWR)
    serve(link, lambda: link.disconnects == 1 and link.connected, "reconnected")
    assert link.sock is not None
    assert bool(link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) is nodelay


def test_stamps_are_in_order(broker: Broker, make_link: MakeLink) -> None:
    stamps: list[tuple[int, int]] = []

    def received(_topic: bytes, _payload: bytes, _qos: int) -> None:
        assert link.sock is not None
        stamps.append((link.sock.received_ns, perf_counter_ns()))

    link = make_link(broker.port, on_message=received)
    assert link.connect(LIMIT_S)
    for number in range(50):
        before_ns = perf_counter_ns()
        link.publish("echo/a", b"x")
        assert link.sock is not None
        sent_ns, after_ns = link.sock.sent_ns, perf_counter_ns()
        serve(link, lambda wanted=number + 1: len(stamps) == wanted, "the echo")  # type: ignore[misc]
        received_ns, told_ns = stamps[-1]
        assert before_ns <= sent_ns <= after_ns
        assert sent_ns < received_ns <= told_ns


def test_wait_returns_early_for_another_descriptor_only(broker: Broker, make_link: MakeLink) -> None:
    link = make_link(broker.port)
    assert link.connect(LIMIT_S)
    flow(link, 100)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        assert link.wait(perf_counter_ns() + int(LIMIT_S * 1e9), (ours.fileno(),)) == [ours.fileno()]
        ours.recv(1)
        start_ns = perf_counter_ns()
        assert link.wait(start_ns + 30 * MS, (ours.fileno(),)) == []
        assert perf_counter_ns() - start_ns >= 30 * MS
        start_ns = perf_counter_ns()
        assert link.wait(start_ns + 30 * MS) == []
        assert perf_counter_ns() - start_ns >= 30 * MS


def test_nobody_there(make_link: MakeLink) -> None:
    link = make_link(free_port())
    start_ns = perf_counter_ns()
    assert not link.connect(0.5)
    assert perf_counter_ns() - start_ns >= 500 * MS
    assert "refused" in link.last_error
    assert link.publish("echo/a", b"x") is False
    assert link.disconnects == 0


def test_a_broker_that_refuses_is_told_and_not_hammered(
    start_broker: Callable[..., Broker], make_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker(more="allow_anonymous false\n")
    link = make_link(broker.port)
    dials: list[tuple[str, int]] = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda to, timeout: (dials.append(to), connect(to, timeout))[1])
    assert not link.connect(5 * RETRY_S)
    assert "refused" in link.last_error
    assert "uthor" in link.last_error
    assert 2 <= len(dials) <= 7
    assert link.disconnects == 0


def test_something_that_listens_but_is_no_broker(make_link: MakeLink) -> None:
    closed = threading.Event()
    with socket.create_server((HOST, 0)) as server:

        def refuse() -> None:
            server.settimeout(0.05)
            while not closed.is_set():
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            link = make_link(server.getsockname()[1])
            assert not link.connect(1.0)
            assert link.disconnects == 0
        finally:
            closed.set()
            thread.join()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (nonsense.packet(nonsense.PUBLISH, b"\0"), "sent what is no MQTT"),
        (nonsense.packet(nonsense.PUBLISH, b"\xff\xffecho/a"), "sent what is no MQTT"),
        # "I do not speak this version": paho would dial by itself.
        (nonsense.packet(nonsense.CONNACK, b"\0\1"), "speaks no MQTT"),
    ],
)
def test_nonsense_ends_the_connection_at_once(make_link: MakeLink, words: bytes, told: str) -> None:
    """Not only when paho's keepalive has run out: that is twice as long as this waits."""
    broker = nonsense.NonsenseBroker()
    try:
        link = make_link(broker.port, keepalive_s=int(2 * LIMIT_S))
        visits = [link_comes(link, broker)]
        if not words.startswith(bytes([nonsense.CONNACK])):
            assert visits[0].say(nonsense.WELCOME)
            # With something left to write it would find out by writing.
            serve(link, lambda: link.connected and not link.wants_write, "the first connection")
        assert visits[0].say(words)
        visits.append(link_comes(link, broker))
        assert told in link.last_error
        assert visits[1].say(nonsense.WELCOME)
        serve(link, lambda: link.connected, "the next connection")
        for visit in visits:
            visit.close()
    finally:
        broker.close()


def link_comes(link: MqttClient, broker: nonsense.NonsenseBroker) -> nonsense.Visit:
    """Drives the link on this thread until the broker, on another, sees it come."""
    with ThreadPoolExecutor(1) as helper:
        coming = helper.submit(lambda: (visit := broker.visit(), visit.begins()))
        serve(link, coming.done, "the link comes")
        visit, begun = coming.result()
    assert begun
    return visit


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_broker_that_dies_and_returns(broker: Broker, make_link: MakeLink, qos: int) -> None:
    heard: list[tuple[bytes, bytes, int]] = []
    link = make_link(broker.port, heard)
    assert link.connect(LIMIT_S)
    broker.kill()
    serve(link, lambda: not link.connected, "the end is noticed")
    sent = link.publish("echo/a", b"while away", qos)
    assert not sent or qos
    flow(link, 300)
    broker.start()
    serve(link, lambda: link.connected, "reconnected")
    link.publish("echo/a", b"after", qos)
    serve(link, lambda: any(payload == b"after" for _, payload, _ in heard), "the echo after the return")
    flow(link, 100)
    # What waits at QoS 1 and 2 is sent after the return, and finds this end subscribed.
    assert [payload for _, payload, _ in heard] == ([b"while away"] if qos else []) + [b"after"]
    assert link.disconnects == 1


def test_each_death_counts_once(broker: Broker, make_link: MakeLink) -> None:
    link = make_link(broker.port)
    assert link.connect(LIMIT_S)
    for death in range(1, 4):
        broker.kill()
        serve(link, lambda: not link.connected, "the end is noticed")
        broker.start()
        serve(link, lambda: link.connected, "reconnected")
        assert link.disconnects == death


def test_only_one_connection_at_a_time(broker: Broker, make_link: MakeLink) -> None:
    link = make_link(broker.port)
    assert link.connect(LIMIT_S)
    for _ in range(3):
        broker.kill()
        serve(link, lambda: not link.connected, "the end is noticed")
        broker.start()
        serve(link, lambda: link.connected, "reconnected")
    flow(link, 300)
    found = processes.tcp_sockets(os.getpid())
    assert isinstance(found, list)
    assert len([entry for entry in found if entry["peer_port"] == broker.port]) == 1


def test_a_polite_end_sends_no_last_will_and_a_rude_one_does(
    broker: Broker, listener: Listener, make_link: MakeLink
) -> None:
    polite = make_link(broker.port, will=("will/polite", b"gone"))
    rude = make_link(broker.port, will=("will/rude", b"gone"))
    assert polite.connect(LIMIT_S)
    assert rude.connect(LIMIT_S)
    polite.close()
    assert rude.sock is not None
    rude.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: listener.payloads("will/rude"), "the rude one's will")
    assert listener.payloads("will/polite") == []


class Echo:
    """Answers every request at once, on a thread of its own, as the bridge would answer E."""

    def __init__(self, port: int) -> None:
        self._listener = Listener(port, TOPIC_REQUEST)
        client = self._listener.client

        def answer(_client: object, _data: object, message: object) -> None:
            _command, run, sequence = message.payload.split(b"-")  # type: ignore[attr-defined]
            client.publish(TOPIC_ANSWER, b"%s,%s,ok,0,20.00" % (run, sequence), message.qos)  # type: ignore[attr-defined]

        client.on_message = answer

    @property
    def hears(self) -> threading.Event:
        """Set at each subscription."""
        return self._listener._subscribed

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("qos", [0, 1])
def test_the_schedule_goes_on_while_the_broker_is_away(broker: Broker, make_link: MakeLink, qos: int) -> None:
    before, during, after = range(10), range(10, 130), range(130, 140)
    interval_ns = 10 * MS
    store = SampleStore(140, more=COLUMNS)
    state = store["state"]
    link = make_link(
        broker.port,
        subscriptions=[(TOPIC_ANSWER, qos)],
        on_message=lambda *message: measurement.received(*message),
    )
    measurement = Measurement(link, store, "E", "run", per_cell=store.count, deadline_ms=1000, on_other=lambda *_: None)
    assert link.connect(LIMIT_S)
    echo = Echo(broker.port)

    def crash() -> None:
        until(lambda: state[during[10]] != NOT_SENT, "the middle of the schedule")
        echo.hears.clear()
        broker.kill()
        broker.start()

    with ThreadPoolExecutor() as pool, contextlib.closing(echo):
        measurement.repetition(before.start, len(before), interval_ns, qos)
        crashed = pool.submit(crash)
        measurement.repetition(during.start, len(during), interval_ns, qos)
        crashed.result()
        serve(link, lambda: link.subscribed and echo.hears.is_set(), "both are back")
        measurement.repetition(after.start, len(after), interval_ns, qos)
        measurement.drain(after)
    due, sent, states = store["due_ns"].tolist(), store["sent_ns"].tolist(), state.tolist()
    assert [due[k] - due[during[0]] for k in during] == [k * interval_ns for k in range(len(during))]
    assert all(s >= d for s, d in zip(sent, due, strict=True))
    assert {WAITING, ANSWERED, LATE} >= set(states)
    assert not any(states[k] == WAITING for k in (*before, *after))
    assert measurement.disconnects == [1]
    # Away, nothing entered a socket: those rows know no wire time, and none is older than its own sending.
    wire = store["wire_sent_ns"].tolist()
    assert -1 in wire
    assert all(w == -1 or w >= s for w, s in zip(wire, sent, strict=True))
    if qos == 0:
        assert WAITING in states
