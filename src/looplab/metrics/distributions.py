"""Distributions of one cell of a run: histogram, exact quantiles, counts; and their text for Prometheus."""

from array import array
from bisect import bisect_left, insort
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate

from looplab.metrics.text_format import labels_text
from looplab.run.accounting import quantile

BUCKETS_PER_DECADE = 48
QUANTILES = (0.0, 0.5, 0.95, 0.99, 0.999, 1.0)
# Beyond this many values a cell offers no exact quantiles any more: none rather than a wrong one.
MAX_EXACT = 500_000
# From this many new values on, one sort is cheaper than inserting each.
SORT_FROM = 50

OUTCOMES = ("answered", "late", "lost", "robot_error")


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
        found = self.quantiles_ns()
        return "".join(f'{family}{{{labels},q="{q:g}"}} {value / 1e9!r}\n' for q, value in found.items())


@lru_cache(maxsize=4)
def _whole_ns(bounds: tuple[float, ...]) -> tuple[int, ...]:
    """The largest whole ns within each bound, from the bound's decimal text, as a reader sees it."""
    return tuple(int(Decimal(repr(bound)) * 1_000_000_000) for bound in bounds)


# As many as a sweep's running cells use; stored runs are rendered once and need no memory of theirs.
@lru_cache(maxsize=8)
def _bucket_heads(family: str, labels: str, bounds: tuple[float, ...]) -> tuple[str, ...]:
    texts = [*map(repr, bounds), "+Inf"]
    return tuple(f'{family}_bucket{{{labels},le="{text}"}} ' for text in texts)


class Cell:
    """One cell of a run, identified by `labels`; its metric families begin with `family`.

    `latencies` are its distributions by metric; `texts` renders only what changed.
    """

    def __init__(self, family: str, labels: dict[str, str], latencies: dict[str, Distribution]) -> None:
        self.family = family
        self.labels = labels
        self.sent = 0
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.latencies = latencies
        self.lateness = Distribution()
        self._texts: dict[str, str] = {}
        self._rendered = (-1, -1)

    def add_sent(self, lateness_ns: int) -> None:
        """Count one message that left, so much later than due."""
        self.sent += 1
        self.lateness.add(lateness_ns)

    def add_outcome(self, outcome: str) -> None:
        """Count one message whose fate is known."""
        self.outcomes[outcome] += 1

    def add_latency(self, total_ns: int, *more: int) -> None:
        """Count one answer, in time or late, in the first of `latencies`; `more` are values of the own columns."""
        next(iter(self.latencies.values())).add(total_ns)

    def texts(self) -> dict[str, str]:
        """Return sample lines by family; {} before the first message."""
        now = (self.sent, sum(self.outcomes.values()))
        if self.sent and now != self._rendered:
            self._texts = self._render()
            self._rendered = now
        return self._texts

    def _render(self) -> dict[str, str]:
        base, family = labels_text(self.labels), self.family
        metrics = [(f'{base},metric="{metric}"', values) for metric, values in self.latencies.items()]
        latency, messages, late = f"{family}_latency", f"{family}_messages", f"{family}_send_lateness"
        return {
            f"{latency}_seconds": "".join(
                values.histogram_text(f"{latency}_seconds", labels) for labels, values in metrics
            ),
            f"{latency}_quantile_seconds": "".join(
                values.quantile_text(f"{latency}_quantile_seconds", labels) for labels, values in metrics
            ),
            f"{messages}_total": "".join(
                f'{messages}_total{{{base},outcome="{outcome}"}} {count}\n' for outcome, count in self.outcomes.items()
            ),
            f"{messages}_sent_total": f"{messages}_sent_total{{{base}}} {self.sent}\n",
            f"{late}_seconds": self.lateness.histogram_text(f"{late}_seconds", base),
            f"{late}_quantile_seconds": self.lateness.quantile_text(f"{late}_quantile_seconds", base),
        }


def joined(parts: list[dict[str, str]]) -> dict[str, str]:
    """Return the texts of several parts, family by family."""
    families = {family for part in parts for family in part}
    return {family: "".join(part.get(family, "") for part in parts) for family in families}
