"""From raw samples to figures: every message is counted exactly once, no latency is left out."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Protocol

from looplab.run.samples import ANSWERED, FAILED, LATE, NOT_SENT, WAITING

OUTCOMES = {WAITING: "lost", ANSWERED: "answered", LATE: "late", FAILED: "failed"}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
# Beside a quantile beyond which fewer messages lie than FEWEST_BEYOND: p99 of 100 is the slowest but one.
UNSURE, FEWEST_BEYOND = "~", 5
# A shorter delay is a wake-up, not a stall.
HELD_NS = 1_000_000


class Ascending(Protocol):
    """Sorted numbers: a list, or an array."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Any: ...


class Columns(Protocol):
    """Columns of looplab.run.samples by name: a SampleStore, or a mapping of sequences."""

    def __getitem__(self, name: str, /) -> Any: ...


def quantile(ascending: Ascending, share: float) -> float:
    """Return the `share` quantile of sorted values, interpolated linearly between neighbours (Hyndman and Fan's
    type 7, numpy's default); infinite where one of the neighbours is. Raises ValueError if there is none."""
    if not len(ascending):
        raise ValueError("no values")
    position = share * (len(ascending) - 1)
    low = int(position)
    below, above = ascending[low], ascending[min(low + 1, len(ascending) - 1)]
    # Infinity minus infinity would be NaN.
    return float(below if position == low or below == above else below + (position - low) * (above - below))


def summarise(values_ns: Sequence[float]) -> dict[str, float | int | None]:
    """Return n, min, max, avg and percentiles in microseconds (three decimals) of durations in ns; null where none.

    A figure that depends on an infinite duration is infinite: null."""
    if not values_ns:
        return {"n": 0, "min": None, "max": None, "avg": None, **dict.fromkeys(QUANTILES)}
    ascending = sorted(values_ns)
    figures = {
        "min": ascending[0],
        "max": ascending[-1],
        "avg": sum(ascending) / len(ascending),
        **{name: quantile(ascending, share) for name, share in QUANTILES.items()},
    }
    rounded = {name: None if value == inf else round(value / 1000, 3) for name, value in figures.items()}
    return {"n": len(ascending), **rounded}


def mark(statistic: str, n: int | None) -> str:
    """Return UNSURE if so few of `n` messages lie beyond a quantile, else "", as of any other statistic."""
    beyond = (n or 0) * (1 - QUANTILES.get(statistic, 0.0))
    return UNSURE if statistic in QUANTILES and 0 < round(beyond, 6) < FEWEST_BEYOND else ""


def tally(columns: Columns, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the rows that were sent, and those of them with a latency."""
    state = columns["state"]
    sent = [row for row in rows if state[row] != NOT_SENT]
    return sent, [row for row in sent if state[row] in (ANSWERED, LATE)]


def held_us(columns: Columns, sent: Sequence[int]) -> float:
    """Return how long the sender itself held messages back, in us: the sum of its delays of at least HELD_NS.

    A delay counts once: messages that fell due meanwhile, and left in a bunch after it, were not held again.
    """
    due, left = columns["due_ns"], columns["sent_ns"]
    return _held_us((due[row], left[row]) for row in sent)


def answers_held_us(columns: Columns, measured: Sequence[int], usual_ns: float) -> float:
    """Return, likewise, how long answers were held back that should have come `usual_ns` after sending, R included."""
    left, received = columns["sent_ns"], columns["received_ns"]
    return _held_us((left[row] + usual_ns, received[row]) for row in measured)


def _held_us(times: Iterable[tuple[float, float]]) -> float:
    """Return the sum of delays from when each was expected, and all before it were over, to when it came."""
    held_ns = last_ns = 0.0
    for expected_ns, came_ns in times:
        delay_ns = came_ns - max(expected_ns, last_ns)
        held_ns += delay_ns if delay_ns >= HELD_NS else 0
        last_ns = max(last_ns, came_ns)
    return held_ns / 1000


def response(columns: Columns, sent: Sequence[int]) -> dict[str, float | int | None]:
    """Return the times from due to answered; a message without a good answer takes infinitely long."""
    return summarise(response_ns(columns, sent))


def response_ns(columns: Columns, sent: Sequence[int]) -> list[float]:
    """Return the times from due to answered; infinite without a good answer."""
    due, received, state = (columns[name] for name in ("due_ns", "received_ns", "state"))
    return [received[row] - due[row] if state[row] in (ANSWERED, LATE) else inf for row in sent]
