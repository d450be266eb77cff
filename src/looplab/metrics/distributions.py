"""Distributions of durations: how many values are at most each bound."""

from array import array
from bisect import bisect_left
from itertools import accumulate

BUCKETS_PER_DECADE = 48


def bounds_s(lowest_decade: int, highest_decade: int = 0) -> tuple[float, ...]:
    """Upper bounds in seconds, BUCKETS_PER_DECADE of them a decade, both ends included."""
    steps = (highest_decade - lowest_decade) * BUCKETS_PER_DECADE
    return tuple(float(f"{10 ** (lowest_decade + i / BUCKETS_PER_DECADE):.6g}") for i in range(steps + 1))


# 0.1 ms to 1 s.
LATENCY_BOUNDS_S = bounds_s(-4)


class Distribution:
    """Durations in integer nanoseconds, counted exactly at each bound; the last of `bound_texts` is for all."""

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.count = 0
        self.sum_ns = 0
        self.bound_texts = (*map(repr, bounds), "+Inf")
        # Whole ns within each bound; in floats, some bounds are a trifle below their own decimals.
        self._bounds_ns = [int(round(bound * 1e9, 3)) for bound in bounds]
        self._counts = array("q", bytes(8 * (len(bounds) + 1)))

    def add(self, value_ns: int, times: int = 1) -> None:
        """Count a value, once or more often; it falls under the first bound that is not smaller."""
        self._counts[bisect_left(self._bounds_ns, value_ns)] += times
        self.sum_ns += value_ns * times
        self.count += times

    def cumulative(self) -> list[int]:
        """How many values are at most each bound; the last entry is for +Inf."""
        return list(accumulate(self._counts))
