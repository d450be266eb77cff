"""Count durations in buckets of three significant digits, as HdrHistogram does: bounded memory for any run length."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate

# The paper draws medians with quartiles.
QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "p999": 0.999}
# Values below 2 ** BITS have a bucket each; above, a bucket is narrower than a thousandth of its values.
BITS = 11


def upper_ns(value_ns: int) -> int:
    """Return the largest value that falls into the bucket of `value_ns`: 2047 -> 2047, 2048 -> 2049."""
    return value_ns | ((1 << max(0, value_ns.bit_length() - BITS)) - 1)


class Histogram:
    """Durations in integer nanoseconds: counts by the upper end of their bucket; sum, least and largest are exact."""

    def __init__(self, counts: Mapping[int, int] | None = None, sum_ns: int = 0, min_ns: int = 0, max_ns: int = 0):
        self.counts = Counter(counts or {})
        self.count = self.counts.total()
        self.sum_ns, self.min_ns, self.max_ns = sum_ns, min_ns, max_ns

    def add(self, value_ns: int, times: int = 1) -> None:
        """Count a duration; one below 0 counts as 0."""
        value_ns = max(0, value_ns)
        self.counts[upper_ns(value_ns)] += times
        self._extend(times, value_ns * times, value_ns, value_ns)

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        if other.count:
            self.counts.update(other.counts)
            self._extend(other.count, other.sum_ns, other.min_ns, other.max_ns)

    def _extend(self, count: int, sum_ns: int, min_ns: int, max_ns: int) -> None:
        self.min_ns = min(self.min_ns, min_ns) if self.count else min_ns
        self.max_ns = max(self.max_ns, max_ns)
        self.sum_ns += sum_ns
        self.count += count

    def quantiles_ns(self, shares: Iterable[float], endless: int = 0) -> list[float]:
        """Return for each share the smallest duration that at least so many of all values do not exceed; NaN if none.

        It is the upper end of its bucket, and never beyond the largest value. `endless` more values are infinite.
        """
        count = self.count + endless
        if not count:
            return [math.nan for _ in shares]
        uppers = sorted(self.counts)
        seen = list(accumulate(self.counts[upper] for upper in uppers))
        places = [bisect_left(seen, max(1, math.ceil(share * count - 1e-9))) for share in shares]
        return [float(min(uppers[at], self.max_ns)) if at < len(uppers) else math.inf for at in places]

    def summary_us(self, endless: int = 0) -> dict[str, float | int | None]:
        """Return n, min, max, avg and percentiles in microseconds; null where infinite or without a value.

        `endless` more values are infinite: requests that never got their answer.
        """
        count = self.count + endless
        if not self.count:
            return {"n": count, "min": None, "max": None, "avg": None, **dict.fromkeys(QUANTILES)}
        figures = {
            "min": float(self.min_ns),
            "max": math.inf if endless else float(self.max_ns),
            "avg": math.inf if endless else self.sum_ns / self.count,
            **dict(zip(QUANTILES, self.quantiles_ns(QUANTILES.values(), endless), strict=True)),
        }
        return {"n": count, **{name: None if math.isinf(v) else round(v / 1000, 3) for name, v in figures.items()}}


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram of the values of all."""
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total
