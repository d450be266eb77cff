"""Distributions of durations: histogram and exact quantiles, and their text for Prometheus."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate

from looplab.run.accounting import quantile

BUCKETS_PER_DECADE = 48
QUANTILES = (0.0, 0.5, 0.95, 0.99, 0.999, 1.0)
# Beyond this many values a cell offers no exact quantiles any more: none rather than a wrong one.
MAX_EXACT = 500_000
# From this many new values on, one sort is cheaper than inserting each.
SORT_FROM = 50


def bounds_s(lowest_decade: int, highest_decade: int = 0) -> tuple[float, ...]:
    """Upper bounds in seconds, BUCKETS_PER_DECADE of them a decade, both ends included."""
    steps = (highest_decade - lowest_decade) * BUCKETS_PER_DECADE
    return tuple(float(f"{10 ** (lowest_decade + i / BUCKETS_PER_DECADE):.6g}") for i in range(steps + 1))


# 0.1 ms to 1 s.
LATENCY_BOUNDS_S = bounds_s(-4)


class Distribution:
    """Durations in integer nanoseconds, counted exactly at each bound."""

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.count = 0
        self.sum_ns = 0
        self._bounds_ns = _whole_ns(bounds)
        self._counts = array("q", bytes(8 * (len(bounds) + 1)))
        self._ascending = array("q")
        self._fresh: list[int] = []

    def add(self, value_ns: int) -> None:
        """Count one value; it falls under the first bound that is not smaller."""
        self._counts[bisect_left(self._bounds_ns, value_ns)] += 1
        self.sum_ns += value_ns
        self.count += 1
        if self.count <= MAX_EXACT:
            self._fresh.append(value_ns)

    def add_all(self, counts: Mapping[int, int], sum_ns: int) -> None:
        """Count values by how often each occurs, without their quantiles; `sum_ns` is their exact sum."""
        for value_ns, times in counts.items():
            self._counts[bisect_left(self._bounds_ns, value_ns)] += times
            self.count += times
        self.sum_ns += sum_ns

    def cumulative(self) -> list[int]:
        """How many values are at most each bound; the last entry is for +Inf."""
        return list(accumulate(self._counts))

    def quantiles_ns(self) -> dict[float, float]:
        """Exact quantiles (linear between neighbours); empty where there are no values or too many to keep."""
        if not 0 < self.count <= MAX_EXACT:
            self._fresh, self._ascending = [], array("q")
            return {}
        if len(self._fresh) < SORT_FROM:
            for value in self._fresh:
                insort(self._ascending, value)
        else:
            self._ascending = array("q", sorted([*self._ascending, *self._fresh]))
        self._fresh = []
        return {q: quantile(self._ascending, q) for q in QUANTILES}

    def histogram_text(self, family: str, labels: str) -> str:
        """Buckets, sum and count as sample lines; `labels` without braces."""
        heads = _bucket_heads(family, labels, self.bounds)
        lines = [f"{head}{count}\n" for head, count in zip(heads, self.cumulative(), strict=True)]
        lines.append(f"{family}_sum{{{labels}}} {self.sum_ns / 1e9!r}\n{family}_count{{{labels}}} {self.count}\n")
        return "".join(lines)

    def quantile_text(self, family: str, labels: str) -> str:
        """The exact quantiles as sample lines."""
        quantiles = self.quantiles_ns()
        return "".join(f'{family}{{{labels},q="{q:g}"}} {value / 1e9!r}\n' for q, value in quantiles.items())


@lru_cache(maxsize=4)
def _whole_ns(bounds: tuple[float, ...]) -> tuple[int, ...]:
    """The largest whole ns within each bound, from the bound's decimal text, as a reader sees it."""
    return tuple(int(Decimal(repr(bound)) * 1_000_000_000) for bound in bounds)


# As many as a sweep's running cells use; stored runs are rendered once and need no memory of theirs.
@lru_cache(maxsize=8)
def _bucket_heads(family: str, labels: str, bounds: tuple[float, ...]) -> tuple[str, ...]:
    texts = [*map(repr, bounds), "+Inf"]
    return tuple(f'{family}_bucket{{{labels},le="{text}"}} ' for text in texts)
