"""The bridge: one board's serial port for one client at a time, over TCP or over MQTT. It knows no protocol but lines.

The port is open only during a session: opening it resets the board. A TCP session is a connection; an MQTT session
begins and ends with a message on `<topic>/session`, whose answer is on `<topic>/session/state`.
"""

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns

import serial

from looplab.errors import LabError, MachineError
from looplab.experiments.asip.board import LineBuffer
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
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target, give_up_silent_peer
from looplab.mqtt.pairing import read_broker
from looplab.spec.parameters import integer, matching
from looplab.spec.reader import Reader
from looplab.system import own_process
from looplab.treatments.judgement import on_off

PROCESS_NAME = "lab-asip-bridge"
PORT = 5000
TOPIC = "asip/board"
IDLE_NS = 200_000_000
# Bytes that the board's port did not take are tried again after this time.
WRITE_NS = 1_000_000
# Limit of unsent bytes towards the board; beyond it the session ends.
MOST_WAITING_BYTES = 65536


class BoardSession:
    """The board's port as long as a client has it, and what waits; the client is TcpSession's or OverMqtt's."""

    port: serial.Serial

    def __init__(self) -> None:
        self.lines = LineBuffer()
        self.to_board = b""


class TcpSession(BoardSession):
    """A TCP connection."""

    def __init__(self, sock: socket.socket, nodelay: bool) -> None:
        super().__init__()
        self.socket = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nodelay))
        # A client whose network was cut says no goodbye, and would keep the board.
        give_up_silent_peer(sock)

    def send(self, lines: bytes) -> None:
        """Send whole lines. Raises OSError if the client does not take them."""
        # The kernel holds some 15 s of a board's lines for a client that does not read.
        if self.socket.send(lines) < len(lines):
            raise OSError("it does not read")

    def end(self, why: str) -> None:
        self.socket.close()


class OverMqtt(BoardSession):
    """Messages of whole lines."""

    def __init__(self, client: MqttClient, topic: str, qos: int) -> None:
        super().__init__()
        self._client, self._topic, self._qos = client, topic, qos

    def send(self, lines: bytes) -> None:
        if lines:
            self._client.publish(f"{self._topic}/{OUT}", lines, self._qos)

    def end(self, why: str) -> None:
        self.state(why.encode())

    def state(self, text: bytes) -> None:
        """Let the client know that the board is its own, or why the session is over."""
        self._client.publish(f"{self._topic}/{STATE}", text, 1)


@dataclass(frozen=True, kw_only=True)
class BridgeSettings(Shared):
    """What the environment gives the bridge."""

    device: str
    broker: tuple[str, int]
    # A bridge on a Pi has a file of ./lab pair, with TLS and a password.
    pairing: Path | None
    port: int = integer(PORT, 0, 65535, variable="BRIDGE_PORT")
    topic: str = matching(TOPIC, r"asip/[a-z0-9-]{1,40}", "asip/ and the board's name", variable="ASIP_TOPIC")


class BoardBridge:
    """Passes bytes between the board's port and the client of the current session."""

    stopping = False

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._session: TcpSession | OverMqtt | None = None
        # The callback must not publish, so it only keeps (topic, payload) of what has arrived.
        self._arrived: list[tuple[bytes, bytes]] = []
        self._listener = socket.create_server(("", settings.port))
        self._listener.setblocking(False)
        self.address = self._listener.getsockname()
        # The controller asks its questions over UDP, on the port of the same number.
        self._asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._asked.setblocking(False)
        self._asked.bind(self.address)
        # A paired bridge serves TCP clients and questions only from the machine of its broker.
        self._paired_host = ""
        self._mqtt = MqttClient(
            Target(*settings.broker, settings.tcp_nodelay, settings.pairing),
            # The bridge here and one on a Pi need different ids: a broker disconnects the older of two alike.
            f"asip-bridge-{secrets.token_hex(4)}",
            ClientOptions([(f"{settings.topic}/{SESSION}", 1), (f"{settings.topic}/{IN}", settings.qos)]),
            lambda topic, payload, _qos: self._arrived.append((topic, payload)),
        )

    def run(self) -> None:
        """Serve until it is `stopping`."""
        while not self.stopping:
            handlers, listener = self._handlers(), self._listener.fileno()
            waiting = self._session is not None and self._session.to_board
            ready = self._mqtt.wait(perf_counter_ns() + (WRITE_NS if waiting else IDLE_NS), [*handlers, listener])
            # Sessions end before new ones begin, because a client may come back at once.
            for descriptor in handlers.keys() & ready:
                handlers[descriptor]()
            self._serve_mqtt()
            if self._session is not None and self._session.to_board:
                self._write(self._session)
            if listener in ready:
                self._accept()
            if isinstance(self._session, OverMqtt) and not self._mqtt.connected:
                self._end("the broker is gone")

    def close(self) -> None:
        """End the session and leave."""
        self._end("the bridge was stopped")
        self._mqtt.close()
        self._listener.close()
        self._asked.close()

    def _handlers(self) -> dict[int, Callable[[], None]]:
        """Return what to do for each descriptor that has something to read."""
        handlers: dict[int, Callable[[], None]] = {self._asked.fileno(): self._answer}
        session = self._session
        if session is not None:
            handlers[session.port.fileno()] = partial(self._from_board, session)
        if isinstance(session, TcpSession):
            handlers[session.socket.fileno()] = partial(self._from_tcp, session)
        return handlers

    def _answer(self) -> None:
        """Answer whether the broker is there, and with the settings."""
        # The controller repeats a question that fails.
        with contextlib.suppress(OSError):
            _, where = self._asked.recvfrom(BLOCK_BYTES)
            if self._may(where):
                facts = {"broker": on_off(self._mqtt.subscribed), **self._settings.variables()}
                self._asked.sendto(" ".join(f"{name}={value}" for name, value in facts.items()).encode(), where)

    def _may(self, where: tuple[str, int]) -> bool:
        """Return whether that address may command the board, also while the broker of a paired machine is away."""
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
        if self._may(where):
            self._begin(TcpSession(sock, self._settings.tcp_nodelay))
        else:
            _say(f"refused a TCP client: {where[0]} is not the paired machine")
            sock.close()

    def _begin(self, session: TcpSession | OverMqtt) -> None:
        """Open the port for a session, or tell its client why not."""
        try:
            if self._session is not None:
                raise MachineError(IN_USE)
            session.port = open_port(self._settings.device)
        except LabError as error:
            _say(f"refused a client: {error.message}")
            session.end(error.message)
            return
        self._session = session
        if isinstance(session, OverMqtt):
            session.state(OPENED)

    def _end(self, why: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            _say(f"session ended: {why}")
            session.end(why)
            session.port.close()

    def _from_board(self, session: TcpSession | OverMqtt) -> None:
        try:
            data = os.read(session.port.fileno(), BLOCK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._end("the board's port is gone")
            return
        try:
            session.send(session.lines.whole(data))
        except (LabError, OSError) as error:
            self._end(f"the client cannot be served: {error}")

    def _from_tcp(self, session: TcpSession) -> None:
        try:
            data = session.socket.recv(BLOCK_BYTES)
        except OSError as error:
            self._end(f"the client is gone: {error}")
            return
        if data:
            self._queue(session, data)
        else:
            self._end("the client closed it")

    def _queue(self, session: BoardSession, data: bytes) -> None:
        session.to_board += data
        self._write(session)
        if len(session.to_board) > MOST_WAITING_BYTES:
            self._end(f"{len(session.to_board)} bytes wait for a board that does not read")

    def _write(self, session: BoardSession) -> None:
        try:
            session.to_board = session.to_board[os.write(session.port.fileno(), session.to_board) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"the board's port is gone: {error}")

    def _serve_mqtt(self) -> None:
        arrived, self._arrived = self._arrived, []
        for topic, payload in arrived:
            session = self._session if isinstance(self._session, OverMqtt) else None
            if topic.endswith(f"/{IN}".encode()):
                if session is not None:
                    self._queue(session, payload)
            elif payload == OPEN:
                self._begin(OverMqtt(self._mqtt, self._settings.topic, self._settings.qos))
            elif payload == CLOSE and session is not None:
                self._end(CLOSED)


def _say(text: str) -> None:
    print(f"bridge: {text}", flush=True)


def read_settings(environment: dict[str, str]) -> BridgeSettings:
    """Return the settings. Raises LabError (exit code 2) naming the variable at fault."""
    get = Reader(environment, "compose/experiments/asip")
    host, port, pairing = read_broker(environment)
    device = environment.get("ASIP_DEVICE", "").strip() or "/pts"
    return BridgeSettings.of(get, device=device, broker=(host, port), pairing=pairing)


@own_process.program(PROCESS_NAME)
def main() -> int:
    bridge = BoardBridge(read_settings(dict(os.environ)))
    _say(f"waits on port {bridge.address[1]} and for the broker")
    return own_process.run_until_stopped(bridge)


if __name__ == "__main__":
    sys.exit(main())
