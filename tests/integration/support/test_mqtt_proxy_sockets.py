"""The MQTT proxy of the self-tests between sockets: its record must equal what both ends saw."""

from __future__ import annotations

import contextlib
import random
import socket
import statistics
import struct
import threading
import time

import pytest
from support.mqtt_packets import PINGREQ, packet, publish, random_splits
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Record, Rule
from support.ports import free_port

HOST = "127.0.0.1"
WAIT_S = 20.0
MS = 1_000_000
PING = packet(PINGREQ)


def requests(count: int) -> list[bytes]:
    return [publish(f"E-1-{number}") for number in range(count)]


def answers(count: int) -> list[bytes]:
    return [publish(f"1,{number},ok,0,0", "answer/") for number in range(count)]


def rule(impairment: str, direction: str = TO_BROKER, **values: object) -> Rule:
    return Rule(impairment=impairment, direction=direction, **values)


class Ends:
    """Both ends of a connection through a proxy, as plain sockets."""

    def __init__(self, *rules: Rule) -> None:
        self.server = socket.create_server((HOST, 0))
        self.proxy = ImpairmentProxy((HOST, self.server.getsockname()[1]), rules)

    def __enter__(self) -> Ends:
        self.proxy.__enter__()
        self.client, self.broker = self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.stop()
        for own in (self.client, self.broker, self.server):
            own.close()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection((HOST, self.proxy.port), WAIT_S)
        self.server.settimeout(WAIT_S)
        broker, _ = self.server.accept()
        broker.settimeout(WAIT_S)
        for side in (client, broker):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, broker

    @property
    def record(self) -> Record:
        return self.proxy.record


def receive(source: socket.socket, count: int | None = None) -> bytes:
    """Return `count` bytes, or all up to the end of the stream."""
    found = bytearray()
    while (count is None or len(found) < count) and (part := source.recv(65536)):
        found += part
    return bytes(found)


def assert_reset(*sides: socket.socket) -> None:
    for side in sides:
        with pytest.raises(ConnectionResetError):
            receive(side)


def reset(own: socket.socket) -> None:
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    own.close()


@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_any_packets_gives_the_same_stream_both_ways(seed: int) -> None:
    dice = random.Random(seed)

    def stream() -> bytes:
        sizes = [dice.choice((0, 1, 127, 128, 3000, 16_384, 256 * 1024)) for _ in range(20)]
        # Half a packet at the end passes as well.
        return b"".join(packet(dice.randrange(32, 256), dice.randbytes(size)) for size in sizes) + publish("E-1-0")[:7]

    def send(source: socket.socket, data: bytes) -> None:
        for piece in random_splits(data, random.Random(seed)):
            source.sendall(piece)
        source.shutdown(socket.SHUT_WR)

    upward, downward = stream(), stream()
    with Ends(rule("delay", delay_us=300 * seed)) as ends:
        senders = [
            threading.Thread(target=send, args=words) for words in ((ends.client, upward), (ends.broker, downward))
        ]
        found: dict[str, bytes] = {}
        reader = threading.Thread(target=lambda: found.update(up=receive(ends.broker)))
        for thread in (*senders, reader):
            thread.start()
        found["down"] = receive(ends.client)
        for thread in (*senders, reader):
            thread.join(WAIT_S)
    assert found == {"up": upward, "down": downward}
    assert [what for _, _, what in ends.record.events] == ["accepted", "closed"]


def test_a_slow_reader_gets_everything() -> None:
    stream = b"".join(publish(bytes([number]) * 256 * 1024) for number in range(48))
    with Ends() as ends:
        sender = threading.Thread(target=ends.client.sendall, args=(stream,))
        sender.start()
        time.sleep(0.3)
        assert receive(ends.broker, len(stream)) == stream
        sender.join(WAIT_S)


def test_each_direction_has_its_own_faults_and_all_connections_share_them() -> None:
    rules = [rule("loss", every=3), rule("loss", TO_CLIENT, indexes=(0, 1)), rule("duplicate", TO_CLIENT, indexes=(4,))]
    with Ends(*rules) as ends:
        second = ends.connect()
        for client, broker in ((ends.client, ends.broker), second):
            client.sendall(b"".join(requests(6)))
            client.shutdown(socket.SHUT_WR)
            broker.sendall(b"".join(answers(3)))
            broker.shutdown(socket.SHUT_WR)
            kept = [0, 1, 3, 4]
            assert receive(broker) == b"".join(requests(6)[number] for number in kept)
            kept = [2] if client is ends.client else [0, 1, 1, 2]
            assert receive(client) == b"".join(answers(3)[number] for number in kept)
        for side in second:
            side.close()
    assert ends.record.sequences("loss", rule=0) == [2, 5, 2, 5]
    assert ends.record.sequences("loss", rule=1) == [0, 1]
    assert ends.record.matched == [12, 6, 6]


def test_merged_messages_come_in_one_segment() -> None:
    with Ends(rule("merge", TO_CLIENT, indexes=(1,))) as ends:
        for answer in answers(3):
            ends.broker.sendall(answer)
            time.sleep(0.05)
        expected = [answers(3)[0], answers(3)[1] + answers(3)[2]]
        ends.client.setblocking(False)
        assert ends.client.recv(65536) == b"".join(expected)
    [merge] = ends.record.applied("merge")
    assert (merge.sequence, merge.other.sequence) == (1, 2)
    assert merge.packet.forwarded_ns == merge.other.forwarded_ns


@pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
def test_a_delay_is_what_both_ends_see(direction: str) -> None:
    """Joined message by message: what a message took, less what it was held, does not depend on the delay."""
    rest_us: dict[int, list[float]] = {}
    for delay_us in (0, 5000):
        with Ends(rule("delay", direction, delay_us=delay_us, jitter_us=delay_us)) as ends:
            source, sink = (ends.client, ends.broker) if direction == TO_BROKER else (ends.broker, ends.client)
            took_ns = []
            for message in requests(150) if direction == TO_BROKER else answers(150):
                begun_ns = time.monotonic_ns()
                source.sendall(message)
                receive(sink, len(message))
                took_ns.append(time.monotonic_ns() - begun_ns)
        delays = ends.record.applied("delay")
        assert [delay.sequence for delay in delays] == list(range(150))
        assert all(delay.held_ns >= delay_us * 1000 for delay in delays)
        assert (statistics.pstdev(delay.held_ns for delay in delays) > MS) == bool(delay_us)
        rest_us[delay_us] = sorted((took - delay.held_ns) / 1000 for took, delay in zip(took_ns, delays, strict=True))
        late_us = sorted((delay.packet.forwarded_ns - delay.packet.due_ns) / 1000 for delay in delays)
        assert late_us[30] < 300, "a packet leaves when it is due"
    # The fastest fifth: what a busy machine adds, it adds to the others.
    assert abs(rest_us[5000][30] - rest_us[0][30]) < 300


def test_a_cut_passes_its_message_resets_both_sides_and_names_what_stays_behind() -> None:
    with Ends(rule("disconnect", indexes=(2,), grace_ms=1000, away_ms=1000)) as ends:
        ends.client.sendall(b"".join(requests(4)))
        assert receive(ends.broker, 3 * len(requests(1)[0])) == b"".join(requests(3))
        ends.client.sendall(requests(5)[4])
        assert_reset(ends.broker, ends.client)
        # The proxy's reset may be there before connect() returns.
        with (
            contextlib.suppress(ConnectionResetError),
            socket.create_connection((HOST, ends.proxy.port), WAIT_S) as early,
        ):
            assert_reset(early)
        time.sleep(1.05)
        late = ends.connect()
        late[0].sendall(PING)
        assert receive(late[1], len(PING)) == PING
        for side in late:
            side.close()
    [injection] = ends.record.applied("disconnect")
    assert (injection.sequence, injection.index) == (2, 2)
    assert injection.from_ns - injection.packet.forwarded_ns >= 1000 * MS
    assert ends.record.undelivered_sequences(TO_BROKER) == [3, 4]


@pytest.mark.parametrize("stops", ["client", "proxy"])
def test_what_waits_at_an_end_is_undelivered(stops: str) -> None:
    with Ends(rule("delay", TO_CLIENT, delay_us=30_000_000)) as ends:
        ends.broker.sendall(answers(1)[0])
        time.sleep(0.3)
        if stops == "client":
            reset(ends.client)
            assert_reset(ends.broker)
    assert ends.record.undelivered_sequences(TO_CLIENT) == [0]
    [injection] = ends.record.injected("delay")
    assert injection.why_not_applied == "the connection ended first"


def test_what_was_sent_before_a_close_arrives_after_the_delay() -> None:
    with Ends(rule("delay", delay_us=50_000)) as ends:
        ends.client.sendall(requests(1)[0])
        ends.client.close()
        assert receive(ends.broker) == requests(1)[0]
    [delay] = ends.record.applied("delay")
    assert delay.held_ns >= 50 * MS
    assert ends.record.undelivered == []


@pytest.mark.parametrize("who", ["client", "broker", "malformed"])
def test_a_reset_or_a_malformed_length_of_one_side_resets_the_other(who: str) -> None:
    with Ends() as ends:
        one, other = (ends.broker, ends.client) if who == "broker" else (ends.client, ends.broker)
        one.sendall(PING)
        assert receive(other, len(PING)) == PING
        if who == "malformed":
            one.sendall(b"\x30\xff\xff\xff\xff\xff")
        else:
            reset(one)
        assert_reset(other)
    assert any("reset: " in what for _, _, what in ends.record.events)


def test_an_absent_broker_resets_the_client_and_a_later_one_is_found() -> None:
    port = free_port()
    with ImpairmentProxy((HOST, port)) as proxy:
        # On a loaded machine the reset may come before connect() returns, which then raises.
        with (
            contextlib.suppress(ConnectionResetError),
            socket.create_connection((HOST, proxy.port), WAIT_S) as client,
        ):
            assert_reset(client)
        with (
            socket.create_server((HOST, port)) as server,
            socket.create_connection((HOST, proxy.port), WAIT_S) as client,
            contextlib.closing(server.accept()[0]) as late,
        ):
            client.sendall(PING)
            assert receive(late, len(PING)) == PING
    assert "refused" in proxy.record.events[0][2]


def test_many_connections_come_and_go() -> None:
    with Ends() as ends:
        for number in range(150):
            client, broker = ends.connect()
            client.sendall(requests(1)[0])
            reset(client) if number % 3 == 0 else client.close()
            broker.close()
        pairs = [ends.connect() for _ in range(60)]
        for client, broker in pairs:
            client.sendall(PING)
            assert receive(broker, len(PING)) == PING
        for side in (side for pair in pairs for side in pair):
            side.close()
    ended = [number for _, number, what in ends.record.events if what in ("closed", "reset", "the proxy stopped")]
    assert sorted(ended) == list(range(211))
