"""Sockets that remember when bytes last entered and left, plain and with TLS."""

from __future__ import annotations

import socket
import ssl
from time import perf_counter_ns

RECEIVE_BYTES = 65536


class StampedSocket(socket.socket):
    """A socket that reads ahead and remembers when bytes last entered and left (monotonic ns)."""

    received_ns = 0
    sent_ns = 0
    pending = b""
    # Bytes that are on their way out but have not left: with TLS alone, which cannot take a message back.
    unsent = b""
    # The version of TLS that was negotiated, "" without.
    tls = ""
    # How the first bytes that came in began: what speaks at the other end.
    first = b""

    def recv(self, size: int, flags: int = 0) -> bytes:
        chunk = self.pending
        if not chunk:
            chunk = super().recv(RECEIVE_BYTES)
            self.received_ns = perf_counter_ns()
            if not self.first:
                self.first = chunk[:2]
        self.pending = chunk[size:]
        return chunk[:size]

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        self.sent_ns = perf_counter_ns()
        return super().send(data)

    def flush(self) -> None:
        """Send what is on its way out, as far as the system takes it."""


class StampedTlsSocket(StampedSocket):
    """The same with TLS; stamps are taken where the encrypted bytes enter and leave, so they hold no cryptography."""

    _session: ssl.SSLObject

    def handshake(self, context: ssl.SSLContext, host: str) -> None:
        """Agree on keys and check who answers; waits for the peer. Raises ssl.SSLError, OSError."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self.sendall(self._outgoing.read())
                self._incoming_bytes(socket.socket.recv(self, RECEIVE_BYTES))
                continue
            except ssl.SSLError:
                # The peer is told why.
                self.sendall(self._outgoing.read())
                raise
            break
        self.sendall(self._outgoing.read())
        self.tls = self._session.version() or ""

    def recv(self, size: int, flags: int = 0) -> bytes:
        chunk = self.pending or self._decrypted()
        if not self.first:
            self.first = chunk[:2]
        self.pending = chunk[size:]
        return chunk[:size]

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        self.flush()
        if self.unsent:
            raise BlockingIOError
        self._session.write(data)
        self.flush()
        return len(data)

    def flush(self) -> None:
        self.unsent += self._outgoing.read()
        if not self.unsent:
            return
        self.sent_ns = perf_counter_ns()
        try:
            self.unsent = self.unsent[socket.socket.send(self, self.unsent) :]
        except BlockingIOError:
            return

    def _decrypted(self) -> bytes:
        """What just came in, in the clear; b"" at the end. Raises BlockingIOError where no whole record is here yet."""
        encrypted = socket.socket.recv(self, RECEIVE_BYTES)
        self.received_ns = perf_counter_ns()
        self._incoming_bytes(encrypted)
        clear = []
        try:
            while part := self._session.read(RECEIVE_BYTES):
                clear.append(part)
        except ssl.SSLWantReadError:
            # Session tickets and key updates are records without data.
            if not clear:
                raise BlockingIOError from None
        except ssl.SSLError:
            # A connection that ends without TLS's own goodbye; what came before it counts.
            if not clear and encrypted:
                raise
        finally:
            self.flush()
        return b"".join(clear)

    def _incoming_bytes(self, encrypted: bytes) -> None:
        if encrypted:
            self._incoming.write(encrypted)
        else:
            self._incoming.write_eof()
