"""The TLS socket of a link against Python's own TLS: what the peer does not take yet waits, and is sent once."""

import contextlib
import select
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from looplab.mqtt.pairing import SERVER_NAME, Pairing
from looplab.mqtt.tls_socket import StampedTlsSocket

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
