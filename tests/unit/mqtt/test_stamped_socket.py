"""The TLS socket of a link against Python's own TLS: bytes arrive whole, stamps are those of the encrypted bytes."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from time import perf_counter_ns

import pytest
import trustme

from looplab.mqtt.connection_errors import describe_dialling
from looplab.mqtt.packets import publish_packet
from looplab.mqtt.paired import StampedTlsSocket
from looplab.mqtt.pairing import SERVER_NAME, Pairing
from looplab.mqtt.stamped_socket import StampedSocket

HOST = "127.0.0.1"
LIMIT_S = 20.0
# More than any socket buffer of either end.
MUCH = bytes(range(256)) * 40_000

Handler = Callable[[ssl.SSLSocket], None]
Connect = Callable[..., StampedTlsSocket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """A link's socket to a server that does `handler` with its end."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(SERVER_NAME).configure_cert(context)
    listener = socket.create_server((HOST, 0))
    opened: list[socket.socket] = [listener]
    threads: list[threading.Thread] = []

    def start(handler: Handler, name: str = SERVER_NAME) -> StampedTlsSocket:
        def serve() -> None:
            plain, _ = listener.accept()
            plain.settimeout(LIMIT_S)
            try:
                with context.wrap_socket(plain, server_side=True) as end:
                    handler(end)
            except OSError:
                plain.close()

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        plain = socket.create_connection(listener.getsockname())
        sock = StampedTlsSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        opened.append(sock)
        sock.settimeout(LIMIT_S)
        sock.handshake(Pairing(HOST, 0, "", "", authority.cert_pem.bytes().decode()).context(), name)
        return sock

    yield start
    for sock in opened:
        sock.close()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def packet(payload: bytes) -> bytes:
    return publish_packet(b"t", payload, retain=False)


def receive(sock: StampedSocket) -> list[bytes]:
    """Return the next packets, or none at the end of the connection."""
    while not (found := sock.receive()) and not sock.ended:
        pass
    return found


def test_what_is_sent_comes_back_and_each_way_is_stamped(connect: Connect) -> None:
    sock = connect(lambda end: end.sendall(end.recv(100)))
    assert sock.tls in ("TLSv1.2", "TLSv1.3")
    before_ns = perf_counter_ns()
    assert sock.send(packet(b"ping")) == len(packet(b"ping"))
    assert before_ns < sock.sent_ns < perf_counter_ns()
    assert receive(sock) == [packet(b"ping")]
    assert sock.sent_ns < sock.received_ns < perf_counter_ns()


def test_the_end_of_the_other_side_is_the_end(connect: Connect) -> None:
    sock = connect(lambda end: end.sendall(packet(b"bye")))
    assert receive(sock) == [packet(b"bye")]
    assert receive(sock) == []
    assert sock.ended
    assert sock.recv(1) == b""


def test_what_is_not_taken_waits_and_nothing_is_sent_twice(connect: Connect) -> None:
    release, arrived = threading.Event(), bytearray()

    def read_late(end: ssl.SSLSocket) -> None:
        assert release.wait(LIMIT_S)
        while len(arrived) < len(MUCH):
            arrived.extend(end.recv(65536))

    sock = connect(read_late)
    sock.setblocking(False)
    sent = 0
    while not sock.unsent:
        sent += sock.send(MUCH[sent : sent + 100_000])
    sent_ns = sock.sent_ns
    with pytest.raises(BlockingIOError):
        sock.send(b"too early")
    assert sock.sent_ns == sent_ns
    release.set()
    end_ns = perf_counter_ns() + int(LIMIT_S * 1e9)
    while sent < len(MUCH) or sock.unsent:
        assert perf_counter_ns() < end_ns
        with contextlib.suppress(BlockingIOError):
            sent += sock.send(MUCH[sent : sent + 100_000]) if sent < len(MUCH) else 0
        sock.flush()
    while len(arrived) < len(MUCH):
        assert perf_counter_ns() < end_ns
    assert bytes(arrived) == MUCH


def test_another_name_is_refused_and_said(connect: Connect) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        connect(lambda end: None, name="192.0.2.7")
    assert "identity is not the one" in describe_dialling(caught.value)


def test_a_plain_socket_hands_out_whole_packets() -> None:
    ours, theirs = socket.socketpair()
    with theirs, StampedSocket(ours.family, ours.type, ours.proto, fileno=ours.detach()) as sock:
        assert sock.send(b"x") == 1
        assert (sock.tls, sock.unsent) == ("", b"")
        whole = packet(b"x" * 200)
        theirs.sendall(whole[:100])
        assert sock.receive() == []
        theirs.sendall(whole[100:] + packet(b"") + whole[:1])
        assert sock.receive() == [whole, packet(b"")]
        sock.packet = whole
        assert sock.recv(1) + sock.recv(1000) == whole
        with pytest.raises(BlockingIOError):
            sock.recv(1)
