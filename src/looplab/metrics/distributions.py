"""Distributions of durations: how many values are at most each bound."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
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
        self._bounds_ns = _whole_ns(bounds)
        self._counts = array("q", bytes(8 * (len(bounds) + 1)))

    def add(self, value_ns: int) -> None:
        """Count one value; it falls under the first bound that is not smaller."""
        self._counts[bisect_left(self._bounds_ns, value_ns)] += 1
        self.sum_ns += value_ns
        self.count += 1

    def add_all(self, counts: Mapping[int, int], sum_ns: int) -> None:
        """Count values by how often each occurs; `sum_ns` is their exact sum."""
        for value_ns, times in counts.items():
            self._counts[bisect_left(self._bounds_ns, value_ns)] += times
            self.count += times
        self.sum_ns += sum_ns

    def cumulative(self) -> list[int]:
        """How many values are at most each bound; the last entry is for +Inf."""
        return list(accumulate(self._counts))


@lru_cache(maxsize=8)
def _whole_ns(bounds: tuple[float, ...]) -> tuple[int, ...]:
    """The largest whole ns within each bound, from the bound's decimal text, as a reader sees it."""
    return tuple(int(Decimal(repr(bound)) * 1_000_000_000) for bound in bounds)
