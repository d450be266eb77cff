"""Opens a connection to the broker in a helper thread: an open-loop schedule goes on while the broker is away."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from looplab.errors import LabError
from looplab.mqtt.connection_errors import describe_dialling
from looplab.mqtt.pairing import Pairing, read_pairing
from looplab.mqtt.stamped_socket import StampedSocket, StampedTlsSocket

CONNECT_TIMEOUT_S = 2.0
# A peer that is silent this long (a cable pulled) is given up and dialled again: TCP's own doubling pauses go on
# after the network is back (21 s after a cut of 60 s).
PEER_TIMEOUT_MS = 3000
_TCP_OPTIONS = (
    (socket.TCP_KEEPIDLE, 1),
    (socket.TCP_KEEPINTVL, 1),
    (socket.TCP_KEEPCNT, PEER_TIMEOUT_MS // 1000),
    (socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MS),
)


@dataclass(frozen=True)
class Target:
    """Where the broker is, and how to reach it: TLS and a user if there is a pairing file."""

    host: str
    port: int
    tcp_nodelay: bool
    pairing_file: Path | None = None

    def connect(self, pairing: Pairing | None) -> StampedSocket:
        """Return a socket that is ready for MQTT. Raises OSError (ssl.SSLError is one)."""
        plain = socket.create_connection((self.host, self.port), timeout=CONNECT_TIMEOUT_S)
        kind = StampedSocket if pairing is None else StampedTlsSocket
        sock = kind(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self.tcp_nodelay))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_OPTIONS:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        if pairing is not None and isinstance(sock, StampedTlsSocket):
            sock.settimeout(CONNECT_TIMEOUT_S)
            try:
                sock.handshake(pairing.context(), self.host)
            except BaseException:
                sock.close()
                raise
        return sock


class Attempt(threading.Thread):
    """One attempt to connect. Read `sock`, `pairing` and `error` once the thread has ended."""

    def __init__(self, target: Target, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.sock: StampedSocket | None = None
        self.pairing: Pairing | None = None
        self.error = ""
        self._target, self._pause_s = target, pause_s

    def run(self) -> None:
        """Pause, read the pairing file, which may have changed, and connect."""
        sleep(self._pause_s)
        target = self._target
        try:
            self.pairing = read_pairing(target.pairing_file) if target.pairing_file is not None else None
            self.sock = target.connect(self.pairing)
        except LabError as error:
            self.error = error.message
        except OSError as error:
            self.error = f"{target.host}:{target.port}: {describe_dialling(error)}"
