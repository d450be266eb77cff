"""The broker as a pairing file has it: with a user, and over TLS unless the file says that there is none."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from looplab.errors import LabError
from looplab.mqtt.connection_errors import describe_dialling
from looplab.mqtt.dial import CONNECT_TIMEOUT_S, Target
from looplab.mqtt.pairing import SERVER_NAME, Pairing, read_pairing
from looplab.mqtt.stamped_socket import RECEIVE_BYTES, StampedSocket


@dataclass(frozen=True)
class PairedTarget(Target):
    """A target with a pairing file, which may change, so each dialling reads it; None: the broker asks for nothing."""

    pairing_file: Path | None

    def dial(self) -> tuple[StampedSocket, Pairing | None]:
        pairing = read_pairing(self.pairing_file) if self.pairing_file else None
        if not pairing or not pairing.ca_pem:
            return super().dial()[0], pairing
        try:
            sock = self.connect(StampedTlsSocket)
            sock.settimeout(CONNECT_TIMEOUT_S)
            try:
                sock.handshake(pairing.context(), SERVER_NAME)
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            raise LabError(f"{self}: {describe_dialling(error)}") from error
        return sock, pairing


class StampedTlsSocket(StampedSocket):
    """The same with TLS; stamps are taken where the encrypted bytes enter and leave, so they hold no cryptography.

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
