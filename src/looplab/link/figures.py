"""Figures of many delays in bounded memory: bins of 20 us beside exact sums."""

import math
from array import array
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

BIN_NS = 20_000
# What a delay may last: the longest delay, and as much again for its jitter and the queue behind a slow rate.
BINS = 20_000_000_000 // BIN_NS
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SHOWN_BINS = 100


class Delays:
    """Counts, sums and bins of delays in ns; those beyond 20 s count in the last bin."""

    def __init__(self, values_ns: Iterable[int] = ()) -> None:
        self.n = 0
        self._sum_ms = 0.0
        self._squares_ms2 = 0.0
        self._least_ns, self._most_ns = 1 << 63, 0
        self._bins = array("I", [0]) * 4096
        for value in values_ns:
            self.add(value)

    def add(self, delay_ns: int) -> None:
        """Count one delay; below zero it counts as zero."""
        delay_ns = max(delay_ns, 0)
        number = min(delay_ns // BIN_NS, BINS - 1)
        if number >= len(self._bins):
            self._bins.extend(array("I", [0]) * (number + 1 - len(self._bins)))
        self._bins[number] += 1
        delay_ms = delay_ns / 1e6
        self._sum_ms += delay_ms
        self._squares_ms2 += delay_ms * delay_ms
        self._least_ns, self._most_ns = min(self._least_ns, delay_ns), max(self._most_ns, delay_ns)
        self.n += 1

    def as_json(self) -> dict[str, Any]:
        """Return n, mean, sd, min, p50, p95, p99, max in ms and a histogram; quantiles to the middle of a 20 us bin."""
        if not self.n:
            return {"n": 0, **dict.fromkeys(("mean", "sd", "min", *QUANTILES, "max")), "histogram": None}
        mean = self._sum_ms / self.n
        variance = (self._squares_ms2 - self.n * mean * mean) / (self.n - 1) if self.n > 1 else 0.0
        figures = {
            "n": self.n,
            "mean": mean,
            "sd": math.sqrt(max(variance, 0.0)),
            "min": self._least_ns / 1e6,
            **{name: self._quantile_ms(share) for name, share in QUANTILES.items()},
            "max": self._most_ns / 1e6,
        }
        rounded: dict[str, Any] = {name: round(value, 4) for name, value in figures.items()}
        return {**rounded, "histogram": self._histogram()}

    def _quantile_ms(self, share: float) -> float:
        reached = accumulate(self._bins)
        number = next(at for at, seen in enumerate(reached) if seen >= share * self.n)
        middle_ns = (number + 0.5) * BIN_NS
        return min(max(middle_ns, self._least_ns), self._most_ns) / 1e6

    def _histogram(self) -> dict[str, Any]:
        """At most 100 bins of a round width: {"from_ms", "width_ms", "counts"}."""
        first = min(self._least_ns // BIN_NS, BINS - 1)
        last = min(self._most_ns // BIN_NS, BINS - 1)
        widths = (step * 10**power for power in range(7) for step in (1, 2, 5))
        width = next(width for width in widths if last // width - first // width < SHOWN_BINS)
        start = first // width * width
        counts = [sum(self._bins[at : at + width]) for at in range(start, last + 1, width)]
        return {"from_ms": start * BIN_NS / 1e6, "width_ms": width * BIN_NS / 1e6, "counts": counts}
