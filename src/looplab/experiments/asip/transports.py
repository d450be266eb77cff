"""The three ways from a client to the board: a serial port, TCP, MQTT; each carries the same bytes."""

import os
import select
import socket
from collections import deque
from pathlib import Path
from time import perf_counter_ns

import serial

from looplab.errors import LabError, MachineError
from looplab.mqtt.client import ClientOptions, MqttClient, wait_for
from looplab.mqtt.dial import Target, give_up_silent_peer

BAUD_RATE = 57600
BLOCK_BYTES = 4096
CONNECT_TIMEOUT_S = 5.0
# These are the topics below that of the board.
IN, OUT, SESSION, STATE = "in", "out", "session", "session/state"
OPEN, CLOSE, OPENED = b"open", b"close", b"opened"
CLOSED, IN_USE = "closed", "the board is in use"
CLOSE_TIMEOUT_S = 2.0


def _device(address: str) -> str:
    """Return the serial port at `address`; of a folder, its only port. Raises LabError (exit code 3) if none is."""
    path = Path(address)
    if not path.is_dir():
        return address
    ports = [entry for entry in path.iterdir() if entry.name != "ptmx"]
    if len(ports) != 1:
        raise MachineError(
            f"{len(ports)} serial ports in {address}: expected one.",
            "See `docker compose logs asip-board`; with ROBOT=usb, name one in `ROBOT_DEVICE`.",
        )
    return str(ports[0])


def open_port(address: str) -> serial.Serial:
    """Open the serial port at `address` alone. Raises LabError (exit code 3)."""
    port = _device(address)
    with MachineError.of_os(f"The board's port {port} cannot be opened", "Is another client using it?"):
        return serial.Serial(port, BAUD_RATE, timeout=0, exclusive=True)


def _gone(what: str, error: object = "it was closed") -> LabError:
    return MachineError(f"The {what} is gone: {error}.", "See `docker compose logs asip-board asip-bridge`.")


class StreamTransport:
    """A serial port of this machine, or a TCP connection to the bridge, which opens the board's port for it."""

    def __init__(self, what: str, opened: serial.Serial | socket.socket) -> None:
        self._what, self._opened, self._fd = what, opened, opened.fileno()

    def write(self, data: bytes) -> None:
        """Send at once. Raises LabError if the way is gone."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except BlockingIOError as error:
            raise MachineError(f"The {self._what} takes no more bytes.", "Does the board run?") from error
        except OSError as error:
            raise _gone(self._what, error) from error

    def read(self, until_ns: int) -> bytes:
        """Return what arrives first, b"" once `until_ns` (monotonic) has passed. Raises LabError if the way is gone."""
        left_ns = until_ns - perf_counter_ns()
        if not select.select((self._fd,), (), (), left_ns / 1e9 if left_ns > 0 else 0)[0]:
            return b""
        try:
            data = os.read(self._fd, BLOCK_BYTES)
        except OSError as error:
            raise _gone(self._what, error) from error
        if not data:
            raise _gone(self._what)
        return data

    def close(self) -> None:
        """Give the board back."""
        self._opened.close()


def dial_bridge(address: str, nodelay: bool) -> socket.socket:
    """Return a connection to the bridge at host:port. Raises LabError (exit code 3)."""
    host, _, port = address.rpartition(":")
    with MachineError.of_os(f"The bridge at {address} cannot be reached", "See `docker compose logs asip-bridge`."):
        opened = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nodelay))
    give_up_silent_peer(opened)
    return opened


class MqttSession:
    """A session with the bridge over the broker, which ends with the client: `close` is its last will."""

    def __init__(self, address: str, name: str, nodelay: bool, qos: int) -> None:
        broker, _, self._topic = address.partition("/")
        host, _, port = broker.rpartition(":")
        self._arrived: deque[bytes] = deque()
        self._state: deque[bytes] = deque()
        self._qos = qos
        self._opened = False
        subscriptions = [(f"{self._topic}/{OUT}", qos), (f"{self._topic}/{STATE}", 1)]
        options = ClientOptions(subscriptions, will=(f"{self._topic}/{SESSION}", CLOSE))
        # A broker that serves a robot elsewhere asks for a password.
        pairing = os.environ.get("BROKER_PAIRING")
        target = Target(host, int(port), nodelay, Path(pairing) if pairing else None)
        self._client = MqttClient(target, name, options, self._received)
        try:
            self._open()
        except LabError:
            self._client.close()
            raise

    def write(self, data: bytes) -> None:
        self._client.publish(f"{self._topic}/{IN}", data, self._qos)

    def read(self, until_ns: int) -> bytes:
        while not self._arrived:
            if self._state:
                raise _gone("bridge's session", self._state.popleft().decode("utf-8", "replace"))
            if perf_counter_ns() >= until_ns:
                return b""
            self._client.wait(until_ns, ())
            if not self._client.connected:
                raise _gone("broker", self._client.last_error)
        return self._arrived.popleft()

    def close(self) -> None:
        client = self._client
        client.publish(f"{self._topic}/{SESSION}", CLOSE, 1)
        # The bridge reports when the board is free.
        wait_for((client,), lambda: bool(self._state) or not client.connected, CLOSE_TIMEOUT_S)
        client.close()

    def _open(self) -> None:
        client = self._client
        if (
            not wait_for((client,), lambda: client.subscribed, CONNECT_TIMEOUT_S)
            or not client.publish(f"{self._topic}/{SESSION}", OPEN, 1)
            or not wait_for((client,), lambda: bool(self._state), CONNECT_TIMEOUT_S)
        ):
            why = client.last_error or "the bridge does not answer"
            raise MachineError(
                f"No session over {client.target}: {why}.", "See `docker compose logs broker asip-bridge`."
            )
        state = self._state.popleft()
        if state != OPENED:
            raise LabError(f"The bridge: {state.decode('utf-8', 'replace')}.", "Is another client using it?")
        self._opened = True

    def _received(self, topic: bytes, payload: bytes, _qos: int) -> None:
        kind = topic.decode("utf-8", "replace").removeprefix(self._topic + "/")
        if kind == OUT:
            self._arrived.append(payload)
        # Every client gets the refusal of another client, and the end of the session before its own.
        elif payload != (IN_USE if self._opened else CLOSED).encode():
            self._state.append(payload)


Transport = StreamTransport | MqttSession


def connect(transport: str, address: str, name: str, *, nodelay: bool = True, qos: int = 0) -> Transport:
    """Return the open transport to a device or a folder of one, host:port, or host:port/topic; `name` is the client's.

    Raises LabError (exit code 3) if nothing answers.
    """
    if transport == "serial":
        return StreamTransport("serial port", open_port(address))
    if transport == "tcp":
        return StreamTransport("bridge's TCP connection", dial_bridge(address, nodelay))
    return MqttSession(address, name, nodelay, qos)
