"""The kernel's time stamps: of the right message, none where there is none; a TLS socket sends all once.

That they are in order, and none without the kernel: tests/integration/experiments/loop/test_where_o_goes.py.
"""

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns, time_ns

import pytest
import trustme
from support.waiting import until

from looplab.mqtt import kernel_stamps
from looplab.mqtt.packets import publish_packet
from looplab.mqtt.pairing import SERVER_NAME, Pairing
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.mqtt.tls_socket import StampedTlsSocket

LIMIT_NS = 20_000_000_000
PACKET = publish_packet(b"t", b"x" * 80, retain=False)
Pair = tuple[StampedSocket, StampedSocket]


def stamped() -> Iterator[StampedSocket]:
    """Yield both ends of a connection on loopback, as `dial` leaves them, that asked for stamps."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for plain in (ours, theirs):
        sock = StampedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.request_stamps()
        assert sock.unstamped == ""
        yield sock


@pytest.fixture(scope="module", autouse=True)
def stamping() -> Iterator[None]:
    """The kernel stamps arrivals a moment after the first socket asked, until the last one closes: this pair waits."""
    first, second = stamped()
    end_ns = perf_counter_ns() + LIMIT_NS
    with first, second:
        arrived_ns = kernel_stamps.ABSENT
        while arrived_ns == kernel_stamps.ABSENT:
            assert perf_counter_ns() < end_ns
            first.send(PACKET)
            (arrived_ns,) = arrivals(second)
        yield


@pytest.fixture
def pair() -> Iterator[Pair]:
    first, second = stamped()
    with first, second:
        yield first, second


def arrivals(sock: StampedSocket, count: int = 1) -> list[int]:
    """Wait for `count` packets and return when the kernel received each."""
    found: list[int] = []
    end_ns = perf_counter_ns() + LIMIT_NS
    while len(found) < count:
        assert perf_counter_ns() < end_ns
        for packet in sock.receive():
            sock.current = packet
            found.append(sock.arrived_ns)
    return found


def test_of_packets_read_together_only_the_last_has_a_stamp(pair: Pair) -> None:
    """Unless one segment brought them all; half a packet's stamp is not that of the one before."""
    ours, theirs = pair
    for _ in range(3):
        ours.send(PACKET * 3 + PACKET[:10])
        first, second, last = arrivals(theirs, 3)
        assert ours.sent_ns < first == second == last
        ours.send(PACKET[10:])
        assert arrivals(theirs)[0] > ours.sent_ns
    for piece in (PACKET, PACKET, PACKET[:10]):
        ours.send(piece)
    time.sleep(0.05)
    assert arrivals(theirs, 2) == [kernel_stamps.ABSENT] * 2
    ours.send(PACKET[10:])
    ours.send(PACKET)
    time.sleep(0.05)
    first, last = arrivals(theirs, 2)
    assert first == kernel_stamps.ABSENT
    assert last > ours.sent_ns


def test_messages_that_tcp_holds_back_leave_late_and_together(pair: Pair) -> None:
    """As Nagle's algorithm does, but at will."""
    ours, _ = pair
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    times: list[int] = []
    for _ in range(2):
        ours.send(PACKET)
        ours.on_departure(times.append)
    ours.take_departures()
    assert times == []
    let_go_ns = perf_counter_ns()
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    until(lambda: ours.take_departures() or times, "the departure")
    assert len(times) == 2
    assert ours.sent_ns < let_go_ns < times[0] == times[1]


def test_a_departure_wakes_select_once(pair: Pair) -> None:
    """`receive` takes a stamp that was not there before select(), so nothing spins."""
    ours, _ = pair
    times: list[int] = []
    ours.send(PACKET)
    ours.on_departure(times.append)
    assert ours.receive() == []
    assert len(times) == 1
    with pytest.raises(BlockingIOError):
        ours.recvmsg(0, 256, kernel_stamps.MSG_ERRQUEUE)


def test_no_stamp_is_used_across_a_set_clock(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pair
    monkeypatch.setattr(kernel_stamps, "time_ns", lambda: time_ns() + 3_000_000)
    for wanted in (False, True):
        ours.send(PACKET)
        (arrived_ns,) = arrivals(theirs)
        assert (arrived_ns != kernel_stamps.ABSENT) is wanted


HOST = "127.0.0.1"
LIMIT_S = 20.0
# More than any socket buffer of either end.
MUCH = bytes(range(256)) * 40_000


def test_what_is_not_taken_waits_and_nothing_is_sent_twice() -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(SERVER_NAME).configure_cert(context)
    release, arrived = threading.Event(), bytearray()

    def read_late() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as end:
            assert release.wait(LIMIT_S)
            while len(arrived) < len(MUCH):
                arrived.extend(end.recv(65536))

    with socket.create_server((HOST, 0)) as listener, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_late)
        plain = socket.create_connection(listener.getsockname())
        with StampedTlsSocket(plain.family, plain.type, plain.proto, fileno=plain.detach()) as sock:
            sock.settimeout(LIMIT_S)
            sock.handshake(Pairing(HOST, 0, "", "", authority.cert_pem.bytes().decode()).context(), SERVER_NAME)
            sock.setblocking(False)
            sent = 0
            while not sock.unsent:
                sent += sock.send(MUCH[sent : sent + 100_000])
            sent_ns = sock.sent_ns
            with pytest.raises(BlockingIOError):
                sock.send(b"too early")
            assert sock.sent_ns == sent_ns
            release.set()
            while sent < len(MUCH) or sock.unsent:
                assert select.select([], [sock], [], LIMIT_S)[1]
                with contextlib.suppress(BlockingIOError):
                    sent += sock.send(MUCH[sent : sent + 100_000]) if sent < len(MUCH) else 0
                sock.flush()
            reading.result(LIMIT_S)
            assert bytes(arrived) == MUCH
