"""Drives the robot's board program: its serial port over TCP, its trace and its statistics."""

import math
import re
import select
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

IDENTITY = "looplab mbot_ranger 0.4.0"
ANSWER_TIMEOUT_S = 20.0  # a bound for a hung robot, far above any answer time on a loaded machine


def formula_celsius(adc: float) -> float:
    """Return the temperature of the thermistor at this level of the converter."""
    ohm = 10000 / (1023 / adc - 1)
    return 1 / (math.log(ohm / 10000) / 3380 + 1 / 298.15) - 273.15


@dataclass(frozen=True)
class RobotFiles:
    program: Path
    firmware: Path


class Client:
    """The other end of the robot's serial port, over TCP."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, requests: bytes) -> None:
        self.socket.sendall(requests)

    def line(self) -> str:
        while b"\n" not in self._received:
            chunk = self.socket.recv(4096)
            assert chunk, "the robot closed the connection"
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


class Robot:
    """A running board program."""

    def __init__(self, process: subprocess.Popen[bytes], trace_path: Path, stderr_path: Path) -> None:
        self.process = process
        self._trace_path = trace_path
        self._stderr_path = stderr_path
        self.ready_line = self._first_line()
        found = re.fullmatch(r"robot ready on (?:tcp 127\.0\.0\.1:(\d+)|pty (.+))", self.ready_line)
        assert found, f"unexpected ready line {self.ready_line!r}"
        self.port = int(found[1] or 0)
        self.url = f"socket://127.0.0.1:{self.port}"
        self._clients: list[Client] = []

    def _first_line(self) -> str:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(ANSWER_TIMEOUT_S), "no ready line"
        return self.process.stdout.readline().decode().rstrip("\n")

    def connect(self) -> Client:
        client = Client(self.port)
        self._clients.append(client)
        return client

    def connect_ready(self) -> Client:
        client = self.connect()
        assert client.line() == f"{IDENTITY} ready"
        return client

    def trace(self) -> list[TraceEvent]:
        # A line that is just being written has no line end yet.
        lines = self._trace_path.read_text().rpartition("\n")[0].splitlines()
        events = [line.split() for line in lines]
        return [TraceEvent(kind, dict(pair.split("=") for pair in pairs)) for kind, *pairs in events]

    def errors(self) -> str:
        return self._stderr_path.read_text()

    def statistics(self) -> dict[str, float]:
        before = self.errors().count("robot: statistics ")
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            # A line that is just being written has no line end yet.
            whole = self.errors().rpartition("\n")[0].splitlines()
            lines = [line for line in whole if line.startswith("robot: statistics ")]
            if len(lines) > before:
                return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", lines[-1])}
            assert time.monotonic() < deadline, "no statistics"
            time.sleep(0.01)

    def stop(self) -> int:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(ANSWER_TIMEOUT_S)
