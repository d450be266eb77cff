"""One cell of stored runs: its latencies with their intervals, and the counts of run.json."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from looplab.report.repetitions import cell_intervals
from looplab.report.statistics import Floats, Interval, over_runs

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
STATISTICS: Mapping[str, Callable[[Floats], Any]] = {
    "min": np.min,
    "max": np.max,
    "avg": np.mean,
    **{name: partial(np.quantile, q=share) for name, share in QUANTILES.items()},
}
T = TypeVar("T")
# What identifies a cell of a run, e.g. interval in ms and QoS: numbers, and words such as "serial".
Key = tuple[Any, ...]


def cell_text(named: Iterable[tuple[str, float | str]]) -> str:
    """Return a cell in words from the names and values of its key: "20 ms, QoS 0", "10 + 10 ms, QoS 2", "java, tcp"."""
    pairs = list(named)
    times = " + ".join(f"{value:g}" for name, value in pairs if name.endswith("_ms"))
    others = [_key_text(name, value) for name, value in pairs if not name.endswith("_ms")]
    return ", ".join([f"{times} ms", *others] if times else others)


def _key_text(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{'QoS' if name == 'qos' else name} {value:g}"


class KeyPart(Generic[T]):
    """A part of a cell's key as an attribute: `brokers = KeyPart(1, int)`."""

    def __init__(self, at: int, kind: Callable[[Any], T]) -> None:
        self._at, self._kind = at, kind

    def __get__(self, cell: "Cell", _owner: type) -> T:
        return self._kind(cell.key[self._at])


@dataclass
class Cell:
    """One cell, named by `text`: latencies in microseconds by metric, their repetitions, the cell of run.json.

    `response_us` is that of every message sent, from when it was due; a lost one's is infinite. Of several runs, `runs`
    holds the cell of each: intervals are then those over runs.
    """

    key: Key
    text: str
    document: Mapping[str, Any]
    repetition: NDArray[np.int64]
    latency_us: Mapping[str, Floats]
    response_us: Floats = field(default_factory=lambda: np.empty(0))
    response_repetition: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    runs: Sequence["Cell"] = ()
    # Figures of a kind of cell that are no latencies: attributes of it, or entries of run.json.
    figures: ClassVar[Sequence[str]] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def qos(self) -> int:
        return int(self.key[-1])

    @property
    def interval_ms(self) -> float:
        return float(self.document["interval_ms"])

    @property
    def sent(self) -> int:
        return int(self.document["sent"])

    @property
    def answered(self) -> int:
        return int(self.document["answered"])

    @property
    def lost(self) -> int:
        return int(self.document["lost"])

    @property
    def valid(self) -> bool:
        return bool(self.document.get("valid", True))

    @property
    def measured(self) -> int:
        """How many messages have a latency."""
        return int(self.repetition.size)

    @property
    def repetitions(self) -> int:
        """How many repetitions have at least one latency."""
        return int(np.unique(self.repetition).size)

    def mean(self, metric: str) -> Interval | None:
        """Return the mean latency in microseconds, None if nothing was measured."""
        if self.runs:
            return over_runs([cell.statistic(metric, "avg") for cell in self.runs])
        return self._intervals[metric][0] if metric in self._intervals else None

    def quantile(self, metric: str, name: str) -> Interval | None:
        """Return one of QUANTILES in microseconds, None if nothing was measured."""
        if self.runs:
            return over_runs([cell.statistic(metric, name) for cell in self.runs])
        return self._intervals[metric][1][name] if metric in self._intervals else None

    def statistic(self, metric: str, name: str) -> float | None:
        """Return one of STATISTICS in microseconds, None if nothing was measured."""
        values = self.latency_us[metric]
        return float(STATISTICS[name](values)) if values.size else None

    def response(self, name: str) -> float:
        """Return one of QUANTILES of the response in microseconds: infinite where too many are lost, NaN if unknown."""
        return quantile(self.response_us, QUANTILES[name])

    def by_repetition(self, metric: str, name: str) -> dict[int, float]:
        """Return a statistic in us of each repetition that has a value; metric "response" for the response."""
        if metric == "response":
            return {k: quantile(v, QUANTILES[name]) for k, v in _pieces(self.response_repetition, self.response_us)}
        return {k: float(STATISTICS[name](v)) for k, v in _pieces(self.repetition, self.latency_us[metric])}

    def figure(self, name: str) -> float | None:
        """Return a figure by its name in expected.yaml, e.g. "O.p95" or "lost_share".

        None if it was not measured or the cell is INVALID. Latencies of `latency_us` come from the samples, other
        figures from run.json.
        """
        if not self.valid:
            return None
        if name in self.figures:
            found = getattr(self, name) if hasattr(type(self), name) else self.document.get(name)
            found = found.estimate if isinstance(found, Interval) else found
            return None if found is None or math.isnan(found) else float(found)
        metric, _, statistic = name.partition(".")
        if metric in self.latency_us:
            return self.statistic(metric, statistic)
        if statistic:
            value = self.document.get("send_lateness_us" if metric == "lateness" else f"{metric}_us", {}).get(statistic)
            return None if value is None else float(value)
        if name == "interval":
            return self.interval_ms * 1000
        if name.endswith("_share"):
            return float(self.document[name.removesuffix("_share")]) / self.sent if self.sent else None
        return float(self.document.get(name, 0))

    @cached_property
    def _intervals(self) -> dict[str, tuple[Interval, dict[str, Interval]]]:
        found = {}
        for metric, values in self.latency_us.items():
            if values.size:
                mean, quantiles = cell_intervals(values, self.repetition, list(QUANTILES.values()))
                found[metric] = mean, dict(zip(QUANTILES, quantiles, strict=True))
        return found


def _pieces(repetition: NDArray[np.int64], values: Floats) -> Iterator[tuple[int, Floats]]:
    order = np.argsort(repetition, kind="stable")
    numbers, starts = np.unique(repetition[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(values[order], starts[1:]), strict=False)


def quantile(values: Floats, share: float) -> float:
    """Return the quantile of values that may be infinite (numpy would interpolate infinity with itself to NaN)."""
    if not values.size:
        return math.nan
    order = np.sort(values)
    position = share * (order.size - 1)
    low = math.floor(position)
    high = min(low + 1, order.size - 1)
    if math.isinf(order[high]):
        return float(order[low]) if position == low else math.inf
    return float(order[low] + (position - low) * (order[high] - order[low]))
