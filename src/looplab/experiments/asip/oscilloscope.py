"""The simulated board's generator and oscilloscope, asked over UDP (images/robot, signals.c)."""

import secrets
from dataclasses import dataclass

from looplab.errors import LabError
from looplab.experiments.asip.board import CLOCK_HZ
from looplab.experiments.asip.questions import TIMEOUT_S, Asked


@dataclass(frozen=True)
class Edge:
    """One edge of a pin (the processor's name), at a cycle of the board."""

    pin: str
    level: int
    cycle: int


@dataclass(frozen=True)
class Scope:
    """Counts of an oscilloscope: edges seen, edges that the generator still owes, bytes on the wire so far."""

    count: int
    cycle: int
    left: int
    bytes_to_board: int
    bytes_to_client: int


@dataclass(frozen=True)
class BoardCounts:
    """How late the simulated board was (`max`, `mean`), the longest that its adapter held a byte, its processor."""

    lag_us: dict[str, float]
    held_max_us: float
    processor: str


class Oscilloscope:
    """Generator and oscilloscope at `address`, host:port, asked again after `timeout_s` without an answer."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        self._board = Asked("simulated board", address, "See `docker compose logs asip-board`.", timeout_s)

    def answers(self) -> bool:
        try:
            self._board.ask(b"edges 0", 1)
        except LabError:
            return False
        return True

    def wave(self, frequency_hz: float, edges: int) -> float:
        """Begin a square wave of so many edges; return its frequency, a whole number of cycles each half period."""
        half = round(CLOCK_HZ / frequency_hz / 2)
        answer = self._board.ask(b"wave %d %d %d" % (secrets.randbits(62) + 1, half, edges))
        if not answer.startswith("wave="):
            raise LabError(f"The generator refused {frequency_hz:g} Hz: {answer.strip()}.", "Set HIGH_HZ lower.")
        return CLOCK_HZ / (2 * half)

    def state(self) -> Scope:
        return self._edges_from(1 << 62)[0]

    def counts(self) -> BoardCounts:
        """Return what the board has counted: lags since the last question, the rest since its port was opened."""
        found = self._board.counts()
        lag_us = {"max": float(found["lag_max_us"]), "mean": float(found["lag_mean_us"])}
        return BoardCounts(lag_us, float(found["held_max_us"]), found["processor"])

    def edges(self, first: int) -> list[Edge]:
        """Return every edge from number `first` on."""
        found: list[Edge] = []
        while True:
            scope, more = self._edges_from(first + len(found))
            found += more
            if first + len(found) >= scope.count:
                return found

    def _edges_from(self, first: int) -> tuple[Scope, list[Edge]]:
        head, *lines = self._board.ask(b"edges %d" % first).splitlines()
        facts = dict(pair.split("=") for pair in head.split())
        del facts["from"]
        edges = [Edge(pin, int(level), int(cycle)) for pin, level, cycle in map(str.split, lines)]
        return Scope(**{name: int(value) for name, value in facts.items()}), edges
