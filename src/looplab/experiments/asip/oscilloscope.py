"""Parts that measure, asked over UDP: the simulated board's generator and oscilloscope (images/robot, signals.c)."""

import contextlib
import secrets
import socket
import time
from dataclasses import dataclass
from typing import NamedTuple

from looplab.errors import LabError, MachineError
from looplab.experiments.asip.board import CLOCK_HZ

TIMEOUT_S = 0.5
TRIES = 10
POLL_S = 0.05
# The client has copied everything if no edge comes for this time.
QUIET_S = 0.3
# A part answers any unknown question with its counts.
COUNTS = b"?"


# An edge is a pin by the processor's name, its level, and the cycle of the board.
Edge = tuple[str, int, int]


@dataclass(frozen=True)
class Scope:
    """Counts of an oscilloscope: edges seen, edges that the generator still owes, bytes on the wire so far."""

    count: int
    cycle: int
    left: int
    bytes_to_board: int
    bytes_to_client: int


class BoardCounts(NamedTuple):
    """How late the simulated board was at most, the longest that its adapter held a byte, its processor."""

    lag_max_us: float
    held_max_us: float
    processor: str


class Asked:
    """The part `what` at `address`, host:port: one datagram for a question, one for its answer.

    A question is repeated every `timeout_s`. Raises LabError (exit code 3) with `remedy` if no answer comes.
    """

    def __init__(self, what: str, address: str, remedy: str, timeout_s: float = TIMEOUT_S) -> None:
        self._what, self._address, self._remedy, self._timeout_s = what, address, remedy, timeout_s

    def ask(self, question: bytes) -> str:
        host, _, port = self._address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(self._timeout_s)
            for _ in range(TRIES):
                with contextlib.suppress(OSError):
                    sock.connect((host, int(port)))
                    sock.send(question)
                    return sock.recv(65535).decode("ascii")
        raise MachineError(f"The {self._what} at {self._address} does not answer.", self._remedy)

    def counts(self) -> dict[str, str]:
        """Return what the part has counted, by name."""
        return dict(pair.split("=", 1) for pair in self.ask(COUNTS).split())


class Oscilloscope:
    """Generator and oscilloscope at `address`, host:port, asked again after `timeout_s` without an answer."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        self._board = Asked("simulated board", address, "See `docker compose logs asip-board`.", timeout_s)

    def wave(self, frequency_hz: float, edges: int) -> float:
        """Begin a square wave of so many edges; return its frequency, a whole number of cycles each half period."""
        half = round(CLOCK_HZ / frequency_hz / 2)
        answer = self._board.ask(b"wave %d %d %d" % (secrets.randbits(62) + 1, half, edges))
        if not answer.startswith("wave="):
            raise LabError(f"The generator refused {frequency_hz:g} Hz: {answer.strip()}.", "Set HIGH_HZ lower.")
        return CLOCK_HZ / (2 * half)

    def state(self) -> Scope:
        return self._edges_from(1 << 62)[0]

    def settle(self, wave_s: float, most_s: float) -> None:
        """Wait until the wave of `wave_s` has ended and no edge follows; `most_s` after its end at most."""
        time.sleep(wave_s)
        state, quiet_since = self.state(), time.monotonic()
        while state.left or time.monotonic() - quiet_since < min(QUIET_S, most_s):
            time.sleep(POLL_S)
            last, state = state, self.state()
            if state.count != last.count:
                quiet_since = time.monotonic()

    def counts(self) -> BoardCounts:
        """Return what the board has counted: lags since the last question, the rest since its port was opened."""
        counts = self._board.counts()
        return BoardCounts(float(counts["lag_max_us"]), float(counts["held_max_us"]), counts["processor"])

    def edges(self, first: int) -> list[Edge]:
        """Return every edge from number `first` on."""
        edges: list[Edge] = []
        while True:
            scope, more = self._edges_from(first + len(edges))
            edges += more
            if first + len(edges) >= scope.count:
                return edges

    def _edges_from(self, first: int) -> tuple[Scope, list[Edge]]:
        head, *lines = self._board.ask(b"edges %d" % first).splitlines()
        facts = dict(pair.split("=") for pair in head.split())
        edges = [(pin, int(level), int(cycle)) for pin, level, cycle in map(str.split, lines)]
        del facts["from"]
        return Scope(**{name: int(value) for name, value in facts.items()}), edges
