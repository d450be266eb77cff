"""Opens a connection to the broker, on which paho's client then speaks."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from looplab.errors import LabError
from looplab.mqtt.connection_errors import describe_dialling
from looplab.mqtt.pairing import SERVER_NAME, Pairing, read_pairing
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.mqtt.tls_socket import StampedTlsSocket
from looplab.system.background import Attempt

S = TypeVar("S", bound=StampedSocket)

CONNECT_TIMEOUT_S = 2.0
RETRY_S = 0.2
# A peer that is silent this long (a cable pulled) is given up and dialled again: TCP's own doubling pauses go on
# after the network is back (21 s after a cut of 60 s).
PEER_TIMEOUT_S = 3


def give_up_silent_peer(sock: socket.socket, timeout_s: int = PEER_TIMEOUT_S) -> None:
    """Have the kernel end a TCP connection whose peer, asked each second, has been silent for `timeout_s`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, 1),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, timeout_s),
        (socket.TCP_USER_TIMEOUT, timeout_s * 1000),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(frozen=True)
class Target:
    """Where the broker is, with a user and TLS as `pairing_file` has them; None: the broker asks for nothing."""

    host: str
    port: int
    tcp_nodelay: bool
    pairing_file: Path | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def dial(self) -> tuple[StampedSocket, Pairing | None]:
        """Return a socket that is ready for MQTT, and how this client is paired with the broker. Raises LabError.

        The pairing file may change, so each dialling reads it.
        """
        pairing = read_pairing(self.pairing_file) if self.pairing_file else None
        try:
            if not pairing or not pairing.ca_pem:
                return self._connect(StampedSocket), pairing
            sock = self._connect(StampedTlsSocket)
            sock.settimeout(CONNECT_TIMEOUT_S)
            try:
                sock.handshake(pairing.context(), SERVER_NAME)
            except BaseException:
                sock.close()
                raise
            return sock, pairing
        except OSError as error:
            raise LabError(f"{self}: {describe_dialling(error)}") from error

    def _connect(self, kind: type[S]) -> S:
        """Return a socket of this kind with a connection. Raises OSError."""
        plain = socket.create_connection((self.host, self.port), timeout=CONNECT_TIMEOUT_S)
        sock = kind(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.request_stamps()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self.tcp_nodelay))
        give_up_silent_peer(sock)
        return sock


class Dialler:
    """Dials `target` in a helper thread, one attempt at a time: an open-loop schedule goes on while the broker is away.

    `pairing` is that of the last socket.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.pairing: Pairing | None = None
        self._attempt: Attempt[tuple[StampedSocket, Pairing | None]] | None = None
        self._pause_s = 0.0

    def take(self) -> tuple[StampedSocket | None, str]:
        """Return the socket of the attempt that has succeeded, or why it has failed; start the next if none goes on."""
        attempt, error = self._attempt, ""
        if attempt is not None:
            if attempt.is_alive():
                return None, ""
            if attempt.result is not None:
                sock, self.pairing = attempt.result
                self._attempt = None
                return sock, ""
            error = attempt.error
        self._attempt = Attempt(self._target.dial, self._pause_s)
        # Until a broker has accepted this client, the next attempt waits.
        self._pause_s = RETRY_S
        return None, error

    def accepted(self) -> None:
        """Have the next attempt begin at once: the broker has accepted this client."""
        self._pause_s = 0.0


class PahoClient(mqtt.Client):
    """It takes `next_socket` where it would dial; `version` is protocol and session as paho calls them."""

    next_socket: StampedSocket | None = None
    # How a session begins, by the words of MQTT 5.
    start: ClassVar[dict[str, Any]] = {}

    def __init__(self, client_id: str, **version: Any) -> None:
        # reconnect_on_failure: if a broker refuses this version of MQTT, paho would dial by itself.
        super().__init__(CallbackAPIVersion.VERSION2, client_id=client_id, reconnect_on_failure=False, **version)

    def _create_socket_connection(self) -> StampedSocket:
        # Private, but paho has no other hook for a socket of one's own.
        sock, self.next_socket = self.next_socket, None
        if sock is None:
            raise ConnectionError("no connected socket at hand")
        return sock
