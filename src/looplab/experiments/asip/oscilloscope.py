"""The simulated board's generator and oscilloscope, asked over UDP (images/robot, signals.c)."""

import secrets
import socket
from dataclasses import dataclass

from looplab.errors import EXIT_MACHINE, LabError
from looplab.experiments.asip.board import CLOCK_HZ

TIMEOUT_S = 0.5
TRIES = 10


@dataclass(frozen=True)
class Edge:
    """One edge of a pin (the processor's name), at a cycle of the board."""

    pin: str
    level: int
    cycle: int


@dataclass(frozen=True)
class Scope:
    """Where an oscilloscope stands: edges seen, edges that the generator still owes, bytes on the wire so far."""

    count: int
    cycle: int
    left: int
    bytes_to_board: int
    bytes_to_client: int


class Oscilloscope:
    """Generator and oscilloscope at `address`, host:port. Each question is asked until it is answered."""

    def __init__(self, address: str) -> None:
        self._address = address

    def answers(self) -> bool:
        """Return whether the board answers."""
        try:
            self._ask(b"edges 0", 1)
        except LabError:
            return False
        return True

    def wave(self, frequency_hz: float, edges: int) -> float:
        """Begin a square wave of so many edges; return its frequency, a whole number of cycles each half period."""
        half = round(CLOCK_HZ / frequency_hz / 2)
        answer = self._ask(b"wave %d %d %d" % (secrets.randbits(62) + 1, half, edges))
        if not answer.startswith("wave="):
            raise LabError(f"The generator refused {frequency_hz:g} Hz: {answer.strip()}.", "Set HIGH_HZ lower.")
        return CLOCK_HZ / (2 * half)

    def state(self) -> Scope:
        """Return where the oscilloscope stands."""
        return self._edges_from(1 << 62)[0]

    def lag_us(self) -> dict[str, float]:
        """Return how late the simulated board was since the last question: `max` and `mean`."""
        facts = dict(pair.split("=") for pair in self._ask(b"?").split())
        return {"max": float(facts["lag_max_us"]), "mean": float(facts["lag_mean_us"])}

    def edges(self, first: int) -> list[Edge]:
        """Return every edge from number `first` on."""
        found: list[Edge] = []
        while True:
            scope, more = self._edges_from(first + len(found))
            found += more
            if first + len(found) >= scope.count:
                return found

    def _edges_from(self, first: int) -> tuple[Scope, list[Edge]]:
        head, *lines = self._ask(b"edges %d" % first).splitlines()
        facts = dict(pair.split("=") for pair in head.split())
        del facts["from"]
        edges = [Edge(pin, int(level), int(cycle)) for pin, level, cycle in map(str.split, lines)]
        return Scope(**{name: int(value) for name, value in facts.items()}), edges

    def _ask(self, question: bytes, tries: int = TRIES) -> str:
        host, _, port = self._address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(TIMEOUT_S)
            for _ in range(tries):
                try:
                    sock.connect((host, int(port)))
                    sock.send(question)
                    return sock.recv(65535).decode("ascii")
                except OSError:
                    continue
        raise LabError(
            f"The simulated board at {self._address} does not answer.",
            "See `docker compose logs asip-board`.",
            EXIT_MACHINE,
        )
