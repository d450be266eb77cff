"""The stamped socket of a connection over TLS."""

import ssl

from looplab.mqtt.stamped_socket import RECEIVE_BYTES, StampedSocket


class StampedTlsSocket(StampedSocket):
    """A socket with TLS; stamps are taken where the encrypted bytes enter and leave, so they hold no cryptography.

    Encryption counts as the way to the socket, decryption as the way from it.
    """

    _session: ssl.SSLObject

    def handshake(self, context: ssl.SSLContext, host: str) -> None:
        """Agree on keys and check the peer's certificate; waits for the peer. Raises ssl.SSLError, OSError."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self._send_now(self._outgoing.read())
                self._feed(super()._arrived())
                continue
            except ssl.SSLError:
                # The alert that TLS makes of the error: the peer learns the reason.
                self._send_now(self._outgoing.read())
                raise
            break
        self._send_now(self._outgoing.read())
        self.tls = self._session.version() or ""

    def _send_now(self, data: bytes) -> None:
        self.sendall(data)
        self._sent_bytes += len(data)
        # A socket with a time-out would wait that long for a stamp; an untaken stamp would end a wait for data.
        timeout_s = self.gettimeout()
        self.setblocking(False)
        self.take_departures()
        self.settimeout(timeout_s)

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """Take all of `data`, encrypted, as the plain socket does."""
        if self.unsent:
            self.flush()
            if self.unsent:
                raise BlockingIOError
        self._session.write(data)
        super().send(self._outgoing.read())
        return len(data)

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
            # The connection ended without close_notify of TLS; the data before it counts.
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
