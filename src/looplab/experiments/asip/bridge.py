"""The bridge: one board's serial port for one client at a time, over TCP or over MQTT. It knows no protocol but lines.

The port is open only during a session: opening it resets the board. A TCP session is a connection; an MQTT session
begins and ends with a message on `<topic>/session`, whose answer is on `<topic>/session/state`.
"""

import contextlib
import os
import secrets
import socket
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns

import serial

from looplab.errors import LabError
from looplab.experiments.asip.parameters import Shared
from looplab.experiments.asip.transports import (
    BLOCK_BYTES,
    CLOSE,
    CLOSED,
    IN,
    IN_USE,
    OPEN,
    OPENED,
    OUT,
    SESSION,
    STATE,
    open_port,
)
from looplab.mqtt.address import read_broker
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import give_up_silent_peer
from looplab.mqtt.paired import PairedTarget
from looplab.spec.parameters import integer, matching
from looplab.spec.reader import Reader
from looplab.system import own_process
from looplab.treatments.judgement import on_off

PROCESS_NAME = "lab-asip-bridge"
PORT = 5000
TOPIC = "asip/board"
IDLE_NS = 200_000_000
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


@dataclass(frozen=True, kw_only=True)
class BridgeSettings(Shared):
    """What the environment gives the bridge."""

    device: str
    broker: tuple[str, int]
    # A file of ./lab pair, for a bridge on a Pi: TLS and a password.
    pairing: Path | None
    port: int = integer(PORT, 0, 65535, variable="BRIDGE_PORT")
    topic: str = matching(TOPIC, r"asip/[a-z0-9-]{1,40}", "asip/ and the board's name", variable="ASIP_TOPIC")


@dataclass
class _Inbox:
    """What MQTT has brought; its callback must not publish."""

    orders: list[bytes] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)


class Bridge:
    """Passes bytes between the port and the session there is."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._port: serial.Serial | None = None
        self._session: Session | None = None
        self._inbox = _Inbox()
        self._stopping = False
        self._to_board = b""
        self._listener = socket.create_server(("", settings.port))
        self._listener.setblocking(False)
        self.address = self._listener.getsockname()
        # Questions of the controller come to the same number, by UDP.
        self._asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._asked.setblocking(False)
        self._asked.bind(self.address)
        # With a pairing TCP and questions are for the machine at the other end of the MQTT connection alone.
        self._paired_host = ""
        self._mqtt = MqttClient(
            PairedTarget(*settings.broker, settings.tcp_nodelay, settings.pairing),
            # Of its own: beside one on a Pi there is one here, and two clients of one id end each other.
            f"asip-bridge-{secrets.token_hex(4)}",
            ClientOptions([(f"{settings.topic}/{SESSION}", 1), (f"{settings.topic}/{IN}", settings.qos)]),
            self._received,
        )

    def run(self) -> None:
        """Serve until `stop`."""
        while not self._stopping:
            ready = self._mqtt.wait(perf_counter_ns() + (1_000_000 if self._to_board else IDLE_NS), self._descriptors())
            # First what may end a session, then what begins one: a client may come back at once.
            for descriptor in ready:
                self._serve(descriptor)
            self._serve_mqtt()
            self._write()
            if self._listener.fileno() in ready:
                self._accept()
            if isinstance(self._session, OverMqtt) and not self._mqtt.connected:
                self._end("the broker is gone")

    def stop(self, *_signal: object) -> None:
        """End `run` at its next turn; a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """End the session and leave."""
        self._end("the bridge was stopped")
        self._mqtt.close()
        self._listener.close()
        self._asked.close()

    def _descriptors(self) -> list[int]:
        descriptors = [self._listener.fileno(), self._asked.fileno()]
        if self._port is not None:
            descriptors.append(self._port.fileno())
        if isinstance(self._session, TcpSession):
            descriptors.append(self._session.socket.fileno())
        return descriptors

    def _serve(self, descriptor: int) -> None:
        if self._port is not None and descriptor == self._port.fileno():
            self._from_board()
        elif isinstance(self._session, TcpSession) and descriptor == self._session.socket.fileno():
            self._from_tcp(self._session)
        elif descriptor == self._asked.fileno():
            self._answer()

    def _answer(self) -> None:
        """Answer whether the broker is there, and with the settings."""
        try:
            _, where = self._asked.recvfrom(BLOCK_BYTES)
            if not self._may(where):
                return
            facts = {"broker": on_off(self._mqtt.subscribed), **self._settings.variables()}
            self._asked.sendto(" ".join(f"{name}={value}" for name, value in facts.items()).encode(), where)
        except OSError:
            return  # it is asked again

    def _may(self, where: tuple[str, int]) -> bool:
        """Return whether that address may command the board; the paired machine's stays while its broker is away."""
        if self._settings.pairing is None:
            return True
        if self._mqtt.subscribed and self._mqtt.sock is not None:
            with contextlib.suppress(OSError):
                self._paired_host = self._mqtt.sock.getpeername()[0]
        return where[0] == self._paired_host

    def _accept(self) -> None:
        try:
            sock, where = self._listener.accept()
        except OSError:
            return  # it left before it was accepted
        if self._session is not None or not self._may(where):
            why = "the board is in use" if self._session else f"{where[0]} is not the paired machine"
            _say(f"refused a TCP client: {why}")
            sock.close()
            return
        self._begin(TcpSession(sock, self._settings.tcp_nodelay))

    def _begin(self, session: Session) -> bool:
        """Open the port for a session; false if it cannot be opened."""
        try:
            self._port = open_port(self._settings.device)
        except LabError as error:
            session.end(error.message)
            _say(error.message)
            return False
        self._session, self._to_board = session, b""
        return True

    def _end(self, why: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            _say(f"session ended: {why}")
            session.end(why)
        if self._port is not None:
            self._port.close()
            self._port = None

    def _from_board(self) -> None:
        if self._port is None or self._session is None:
            return
        try:
            data = os.read(self._port.fileno(), BLOCK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._end("the board's port is gone")
            return
        try:
            self._session.take(data)
        except OSError as error:
            self._end(f"the client cannot be served: {error}")

    def _from_tcp(self, session: TcpSession) -> None:
        try:
            data = session.socket.recv(BLOCK_BYTES)
        except OSError as error:
            self._end(f"the client is gone: {error}")
            return
        if data:
            self._queue(data)
        else:
            self._end("the client closed it")

    def _queue(self, data: bytes) -> None:
        self._to_board += data
        self._write()
        if len(self._to_board) > MOST_WAITING_BYTES:
            self._end(f"{len(self._to_board)} bytes wait for a board that does not read")

    def _write(self) -> None:
        if self._port is None or not self._to_board:
            return
        try:
            self._to_board = self._to_board[os.write(self._port.fileno(), self._to_board) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"the board's port is gone: {error}")

    def _received(self, topic: bytes, payload: bytes, _qos: int) -> None:
        if topic.endswith(b"/" + IN.encode()):
            self._inbox.data.append(payload)
        else:
            self._inbox.orders.append(payload)

    def _serve_mqtt(self) -> None:
        if self._inbox.orders:
            orders, self._inbox.orders = self._inbox.orders, []
            for order in orders:
                self._obey(order)
        if self._inbox.data:
            data, self._inbox.data = self._inbox.data, []
            if isinstance(self._session, OverMqtt):
                self._queue(b"".join(data))

    def _obey(self, order: bytes) -> None:
        session = OverMqtt(self._mqtt, self._settings.topic, self._settings.qos)
        if order == CLOSE and isinstance(self._session, OverMqtt):
            self._end(CLOSED)
        elif order == OPEN and self._session is not None:
            session.end(IN_USE)
        elif order == OPEN and self._begin(session):
            self._mqtt.publish(f"{self._settings.topic}/{STATE}", OPENED, 1)


def _say(text: str) -> None:
    print(f"bridge: {text}", flush=True)


def read_settings(environment: dict[str, str]) -> BridgeSettings:
    """Return the settings. Raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment, "compose/experiments/asip")
    host, port, pairing = read_broker(environment)
    device = environment.get("ASIP_DEVICE", "").strip() or "/pts"
    return BridgeSettings.of(get, device=device, broker=(host, port), pairing=pairing)


def main() -> int:
    own_process.set_name(PROCESS_NAME)
    try:
        bridge = Bridge(read_settings(dict(os.environ)))
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    _say(f"waits on port {bridge.address[1]} and for the broker")
    return own_process.run_until_stopped(bridge)


if __name__ == "__main__":
    sys.exit(main())
