"""Sockets that remember when bytes last entered and left, plain and with TLS, and cut what enters into MQTT packets."""

import socket
import ssl
from time import perf_counter_ns

from looplab.mqtt.packets import PacketBuffer

RECEIVE_BYTES = 65536


class StampedSocket(socket.socket):
    """A non-blocking socket that takes each packet to send whole; times are monotonic ns."""

    received_ns = 0
    sent_ns = 0
    # Bytes that `send` took and the system has not taken yet.
    unsent = b""
    # The version of TLS that was negotiated, "" without.
    tls = ""
    # The first two bytes that arrived: they show which protocol the other end speaks.
    first = b""
    # The packet that `recv` hands out.
    packet = b""
    ended = False
    _buffer: PacketBuffer | None = None

    def receive(self) -> list[bytes]:
        """Return the whole packets that have arrived; `ended` is set once no more can arrive."""
        try:
            chunk = self._arrived()
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if self._buffer is None:
            self.first, self._buffer = chunk[:2], PacketBuffer()
        self.ended = not chunk
        return self._buffer.packets(chunk)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return bytes of `packet`, for paho, which reads a packet in pieces; b"" at the end of the connection."""
        if not self.packet and not self.ended:
            raise BlockingIOError
        part, self.packet = self.packet[:size], self.packet[size:]
        return part

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """Take all of `data`; raise BlockingIOError, and take nothing, while earlier bytes are `unsent`."""
        if self.unsent:
            self.flush()
            if self.unsent:
                raise BlockingIOError
        self.unsent = self._encoded(data)
        self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what is `unsent`, as far as the system takes it."""
        now = perf_counter_ns()
        try:
            self.unsent = self.unsent[super().send(self.unsent) :]
        except BlockingIOError:
            return
        self.sent_ns = now

    def _arrived(self) -> bytes:
        chunk = super().recv(RECEIVE_BYTES)
        self.received_ns = perf_counter_ns()
        return chunk

    def _encoded(self, data: bytes) -> bytes:
        return data


class StampedTlsSocket(StampedSocket):
    """The same with TLS; stamps are taken where the encrypted bytes enter and leave, so they hold no cryptography."""

    _session: ssl.SSLObject

    def handshake(self, context: ssl.SSLContext, host: str) -> None:
        """Agree on keys and check the peer's certificate; waits for the peer. Raises ssl.SSLError, OSError."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self.sendall(self._outgoing.read())
                self._feed(super()._arrived())
                continue
            except ssl.SSLError:
                # The alert that TLS makes of the error: the peer learns the reason.
                self.sendall(self._outgoing.read())
                raise
            break
        self.sendall(self._outgoing.read())
        self.tls = self._session.version() or ""

    def _encoded(self, data: bytes) -> bytes:
        self._session.write(data)
        return self._outgoing.read()

    def _arrived(self) -> bytes:
        """Return what just came in, decrypted; b"" at the end. Raises BlockingIOError without a whole record."""
        encrypted = super()._arrived()
        self._feed(encrypted)
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
            if answer := self._outgoing.read():
                self.unsent += answer
                self.flush()
        return b"".join(clear)

    def _feed(self, encrypted: bytes) -> None:
        if encrypted:
            self._incoming.write(encrypted)
        else:
            self._incoming.write_eof()
