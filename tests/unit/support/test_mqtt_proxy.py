"""The MQTT proxy of the self-tests: its record must equal what both ends saw."""

from __future__ import annotations

import contextlib
import random
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from support.mqtt_packets import DISCONNECT, PINGREQ, PUBLISH, MalformedPacketError, cut, packet, publish
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Record, Rule
from support.mqtt_proxy.packets import read
from support.mqtt_proxy.queue import Direction, PacketQueue, Step
from support.ports import free_port

HOST = "127.0.0.1"
WAIT_S = 20.0
MS = 1_000_000


def requests(count: int) -> list[bytes]:
    return [publish(f"E-1-{number}") for number in range(count)]


def answers(count: int) -> list[bytes]:
    return [publish(f"1,{number},ok,0,0", "answer/") for number in range(count)]


PING, FAREWELL = packet(PINGREQ), packet(DISCONNECT)


def random_splits(stream: bytes, dice: random.Random) -> Iterator[bytes]:
    """Cut the stream into pieces of very different sizes, single bytes among them."""
    while stream:
        size = dice.choice((1, 1, 2, 3, 7, 100, 1500, 70_000))
        yield stream[:size]
        stream = stream[size:]


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


# --- between sockets -------------------------------------------------------------------------------------


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
