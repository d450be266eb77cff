"""What a link decides for each packet, delays drawn as netem draws them, and the figures of delays that were made.

The tables are those that iproute2 installs. Knows neither sockets nor clocks.
"""

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from looplab.errors import MachineError
from looplab.link.settings import LinkSettings

# An entry of a table is this many times the deviation it means (NETEM_DIST_SCALE of Linux).
TABLE_SCALE = 8192
TABLE_FOLDERS = ("/usr/lib/tc", "/usr/share/tc", "/usr/share/iproute2")


class Direction:
    """Draws for one LinkSettings; all times in ns of one monotonic clock."""

    def __init__(self, settings: LinkSettings) -> None:
        rng = random.Random()
        self._random = rng.random
        self._delay_ns = sampler(settings, rng)
        self._loss = settings.loss_percent / 100
        self._keeps_order = not settings.reorder
        self._last_due_ns = 0
        # How long packets waited for those before them, all together.
        self.waited_ns = 0

    def loses(self) -> bool:
        """Return whether the next packet is lost."""
        return self._loss > 0 and self._random() < self._loss

    def due_ns(self, arrival_ns: int) -> int:
        """Return when a packet that came at `arrival_ns` leaves the link."""
        due = arrival_ns + self._delay_ns()
        if self._keeps_order:
            drawn = due
            self._last_due_ns = due = max(due, self._last_due_ns)
            self.waited_ns += due - drawn
        return due


@cache
def delays_ns(link: LinkSettings) -> tuple[int, ...]:
    """Return the delays of which each packet gets one, none below 0. Raises LabError if a table is missing."""
    if not link.jitter_ms:
        entries: Sequence[int] = [0]
    elif link.distribution == "uniform":
        entries = range(-TABLE_SCALE, TABLE_SCALE + 1)
    else:
        entries = table(link.distribution)
    return tuple(max(0, round((link.delay_ms + link.jitter_ms * entry / TABLE_SCALE) * 1e6)) for entry in entries)


def sampler(link: LinkSettings, rng: random.Random) -> Callable[[], int]:
    """Return a function that draws one delay in ns. Raises LabError if a table is missing."""
    delays, draw = delays_ns(link), rng.random
    size = len(delays)
    return lambda: delays[int(draw() * size)]


def table(name: str) -> tuple[int, ...]:
    """Return the entries of iproute2's <name>.dist. Raises LabError (exit code 3) if it is not installed."""
    for folder in (*sorted(str(path) for path in Path("/usr/lib").glob("*-linux-*/tc")), *TABLE_FOLDERS):
        path = Path(folder) / f"{name}.dist"
        if path.is_file():
            lines = (line.partition("#")[0] for line in path.read_text(encoding="ascii").splitlines())
            return tuple(int(word) for line in lines for word in line.split())
    raise MachineError(f"iproute2's table {name}.dist is not installed.", "apt-get install iproute2")


@cache
def theory(link: LinkSettings) -> tuple[float, float]:
    """Return (mean, standard deviation) in ms of the delays that `sampler` draws."""
    delays = delays_ns(link)
    return fmean(delays) / 1e6, pstdev(delays) / 1e6


class Delays:
    """Delays in ns, in bounded memory: their number, mean, standard deviation and least; one below 0 counts as 0."""

    def __init__(self) -> None:
        self.count = 0
        self._sum_ms = self._squares_ms2 = 0.0
        self._min_ms = math.inf

    def add(self, value_ns: int) -> None:
        ms = max(value_ns, 0) / 1e6
        self.count += 1
        self._sum_ms += ms
        self._squares_ms2 += ms * ms
        self._min_ms = min(self._min_ms, ms)

    def as_json(self) -> dict[str, Any]:
        """Return n, mean, sd and min in ms, null without a delay."""
        n = self.count
        if not n:
            return {"n": 0, "mean": None, "sd": None, "min": None}
        mean = self._sum_ms / n
        variance = (self._squares_ms2 - n * mean * mean) / (n - 1) if n > 1 else 0.0
        figures = {"mean": mean, "sd": math.sqrt(max(variance, 0.0)), "min": self._min_ms}
        return {"n": n, **{name: round(value, 4) for name, value in figures.items()}}
