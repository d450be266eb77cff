"""One cell of stored runs: its latencies with their intervals, and the counts of run.json."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from looplab.report.repetitions import cell_intervals
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Floats, Interval, over_runs
from looplab.run import accounting
from looplab.spec.cell import Cell
from looplab.spec.columns import Figure

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
# Each of sorted latencies, of which a lost message's may be infinite.
STATISTICS: Mapping[str, Callable[[Floats], Any]] = {
    "min": itemgetter(0),
    "max": itemgetter(-1),
    "avg": np.mean,
    "sd": np.std,
    **{name: partial(accounting.quantile, share=share) for name, share in QUANTILES.items()},
}
# What identifies a cell of a run, e.g. interval in ms and QoS: numbers, and words such as "serial".
Key = tuple[Any, ...]


@dataclass(eq=False)
class MeasuredCell(Cell):
    """One cell of stored runs: beside its figures in run.json its latencies in us by metric, and their repetitions.

    `response_us` is that of every message sent, from when it was due; a lost one's is infinite. Of several runs, `runs`
    holds the cell of each: intervals are then those over runs.
    """

    document: Mapping[str, Any]
    repetition_of: NDArray[np.int64]
    latency_us: Mapping[str, Floats]
    response_us: Floats = field(default_factory=lambda: np.empty(0))
    response_repetition: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    runs: "Sequence[Self]" = ()

    @property
    def measured(self) -> int:
        """How many messages have a latency."""
        return int(self.repetition_of.size)

    @cached_property
    def ascending_us(self) -> Mapping[str, Floats]:
        """The latencies of each metric, sorted."""
        return {metric: np.sort(values) for metric, values in self.latency_us.items()}

    def unsure(self, metric: str, name: str) -> str:
        """Return what stands beside a quantile that rests on too few messages of a run, else ""."""
        sizes = [cell.latency_us[metric].size for cell in self.runs or (self,) if metric in cell.latency_us]
        return accounting.mark(name, min(sizes, default=0))

    def statistic(self, metric: str, name: str) -> float | None:
        """Return one of STATISTICS in microseconds, None if nothing was measured."""
        values = self.ascending_us[metric]
        return float(STATISTICS[name](values)) if values.size else None

    def count(self, fate: str) -> int:
        """Return how many messages had a fate, named as in looplab.run.accounting.OUTCOMES."""
        return sum(count.of(self) for count in self.outcomes().values() if fate in count.fates)

    def interval(self, name: str) -> Interval:
        """Return a figure with its interval: over runs from FEWEST_RUNS on, else of the mean that it is a quotient of.

        What the mean is divided by counts as exact. Of fewer runs another figure has no interval.
        """
        metric, _, statistic = name.partition(".")
        timed = metric in self.latency_us and statistic in ("avg", *QUANTILES)
        if timed and not self.runs:
            return self._intervals.get(metric, {}).get(statistic, UNKNOWN)
        if timed or len(self.runs) >= FEWEST_RUNS:
            each = [one.statistic(metric, statistic) if timed else one.figure(name) for one in self.runs]
            return over_runs(each) or UNKNOWN
        column = self.columns.get(metric)
        over = column.over if isinstance(column, Figure) else None
        if over and over[0] in self._intervals:
            below = self.columns[over[1]]
            divisor = below.of(self)
            scale = 1.0 if below.unit == "us" else 1000.0
            return self._intervals[over[0]]["avg"].over(scale * divisor) if divisor else UNKNOWN
        value = self.figure(name)
        return UNKNOWN if value is None else Interval(value)

    def figure(self, name: str) -> float | None:
        """Return a figure by its name in expected.yaml, e.g. "O.p95", "ratio" or "lost_share".

        None if it was not measured or the cell is INVALID. Latencies of `latency_us` come from the samples, other
        figures from run.json.
        """
        if not self.valid:
            return None
        metric, _, statistic = name.partition(".")
        if metric in self.latency_us:
            return self.statistic(metric, statistic)
        if statistic:
            value = self.columns[metric].of(self).get(statistic)
        elif name.endswith("_share") and name not in self.columns:
            count = self.columns[name.removesuffix("_share")].of(self)
            value = count / self.total().of(self) if self.total().of(self) else None
        else:
            value = self.columns[name].of(self)
        return None if value is None or math.isnan(value) else float(value)

    @cached_property
    def _intervals(self) -> dict[str, dict[str, Interval]]:
        """Mean and quantiles of each metric that was measured, over the repetitions."""
        intervals = {}
        for metric, values in self.latency_us.items():
            if values.size:
                mean, quantiles = cell_intervals(values, self.repetition_of, list(QUANTILES.values()))
                intervals[metric] = {"avg": mean, **dict(zip(QUANTILES, quantiles, strict=True))}
        return intervals


def measured_kind(table: type[Cell]) -> type[MeasuredCell]:
    """Return the kind of measured cell that has the columns of a table."""
    return type(f"Measured{table.__name__}", (MeasuredCell, table), {})


def quantile(values: Floats, share: float) -> float:
    """Return the quantile of values that may be infinite (numpy would interpolate infinity with itself to NaN)."""
    return accounting.quantile(np.sort(values), share) if values.size else math.nan
