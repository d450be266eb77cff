"""A board on this machine: firmware in the lab's simulator, its serial port on TCP or a pseudo-terminal."""

import itertools
import math
import os
import re
import select
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from support.parts import HOST, Child
from support.waiting import until

IDENTITY = "looplab mbot_ranger 0.4.0"
# The board's program and its firmware, in the robot's image.
ROBOT_FILES = ("/usr/local/bin/robot", "/usr/share/looplab/mbot_ranger.hex")
ANSWER_TIMEOUT_S = 20.0  # a bound for a hung board, far above any answer time on a loaded machine
_READY = re.compile(r"^robot ready on (?:tcp 127\.0\.0\.1:(\d+)|pty (.+))$", re.MULTILINE)
_numbers = itertools.count()


def formula_celsius(adc: float) -> float:
    """Return the temperature of the thermistor at this level of the converter."""
    ohm = 10000 / (1023 / adc - 1)
    return 1 / (math.log(ohm / 10000) / 3380 + 1 / 298.15) - 273.15


class Client:
    """The other end of the board's serial port, over TCP."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, requests: bytes) -> None:
        self.socket.sendall(requests)

    def line(self) -> str:
        while b"\n" not in self._received:
            chunk = self.socket.recv(4096)
            assert chunk, "the board closed the connection"
            self._received += chunk
        line, self._received = self._received.split(b"\n", 1)
        return line.removesuffix(b"\r").decode("ascii")

    def more_within(self, seconds: float) -> bool:
        """Whether anything is received, or is still to be read, within that time."""
        return bool(self._received or select.select([self.socket], [], [], seconds)[0])

    def ask(self, request: bytes) -> str:
        self.send(request)
        return self.line()

    def close(self) -> None:
        self.socket.close()


@dataclass(frozen=True)
class TraceEvent:
    kind: str
    fields: dict[str, str]

    def cycle(self, name: str) -> int:
        return int(self.fields[name])

    @property
    def byte(self) -> int:
        return int(self.fields["byte"], 16)


class Board(Child):
    """A running board; `files` holds the program and `firmware`. The options place its serial port.

    On TCP it has a `url`, on a pseudo-terminal a `device`.
    """

    def __init__(self, files: Path, folder: Path, firmware: str | Path, *options: str) -> None:
        number = next(_numbers)
        self._trace = folder / f"trace{number}"
        words = ["--firmware", str(files / firmware), "--trace", str(self._trace), *options]
        super().__init__([str(files / "robot"), *words], folder / f"board{number}.log")
        found = until(lambda: _READY.search(self.said()), f"the board: {self.said()}")
        self._port = int(found[1] or 0)
        self.url = f"socket://{HOST}:{self._port}"
        self.device = os.readlink(found[2]) if found[2] else ""
        self._clients: list[Client] = []

    def connect(self) -> Client:
        self._clients.append(Client(self._port))
        return self._clients[-1]

    def connect_ready(self) -> Client:
        client = self.connect()
        assert client.line() == f"{IDENTITY} ready"
        return client

    def reset(self) -> None:
        """Its reset button, or its DTR line."""
        self.signal(signal.SIGUSR2)

    def trace(self) -> list[TraceEvent]:
        # A line that is just being written has no line end yet.
        lines = self._trace.read_text().rpartition("\n")[0].splitlines()
        events = [line.split() for line in lines]
        return [TraceEvent(kind, dict(pair.split("=") for pair in pairs)) for kind, *pairs in events]

    def events_of(self, kind: str) -> list[TraceEvent]:
        """Return the events of a kind; tx is a byte from the board, rx one to it."""
        return [event for event in self.trace() if event.kind == kind]

    def statistics(self) -> dict[str, float]:
        def lines() -> list[str]:
            return re.findall(r"^robot: statistics (.*)\n", self.said(), re.MULTILINE)

        before = len(lines())
        self.signal(signal.SIGUSR1)
        until(lambda: len(lines()) > before, "statistics")
        return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", lines()[-1])}

    def stop(self) -> int:
        """Ask it to end, if it still runs; its exit code."""
        for client in self._clients:
            client.close()
        return super().stop() if self.process.poll() is None else self.process.wait()

    def close(self) -> None:
        self.stop()
