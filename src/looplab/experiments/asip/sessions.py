"""The bridge's clients: a TCP connection, or messages over the broker."""

import contextlib
import socket
from abc import ABC, abstractmethod

from looplab.experiments.asip.transports import OUT, STATE
from looplab.mqtt.client import MqttClient
from looplab.mqtt.dial import give_up_silent_peer

# What may wait for a client that does not read, or for a board that does not: then the session ends.
MOST_WAITING_BYTES = 65536
LONGEST_LINE = 2000


class Session(ABC):
    """One client: the way back to it, on which only whole lines go."""

    _rest = b""

    def take(self, data: bytes) -> None:
        """Send the lines that are whole by now. Raises OSError if the client does not take them."""
        lines, end, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise OSError("the board sends bytes that are no lines")
        if end:
            self._send(lines + end)

    @abstractmethod
    def _send(self, data: bytes) -> None:
        """Send whole lines."""

    @abstractmethod
    def end(self, why: str) -> None:
        """Let the client know that the session is over."""


class TcpSession(Session):
    """A TCP connection."""

    def __init__(self, sock: socket.socket, nodelay: bool) -> None:
        self.socket = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nodelay))
        # A client whose network was cut says no goodbye, and would keep the board.
        give_up_silent_peer(sock)
        self._waiting = b""

    def _send(self, data: bytes) -> None:
        self._waiting += data
        with contextlib.suppress(BlockingIOError):
            self._waiting = self._waiting[self.socket.send(self._waiting) :]
        if len(self._waiting) > MOST_WAITING_BYTES:
            raise OSError(f"{len(self._waiting)} bytes wait for a client that does not read")

    def end(self, why: str) -> None:
        self.socket.close()


class OverMqtt(Session):
    """Messages of whole lines."""

    def __init__(self, client: MqttClient, topic: str, qos: int) -> None:
        self._client, self._topic, self._qos = client, topic, qos

    def _send(self, data: bytes) -> None:
        self._client.publish(f"{self._topic}/{OUT}", data, self._qos)

    def end(self, why: str) -> None:
        self._client.publish(f"{self._topic}/{STATE}", why.encode(), 1)
