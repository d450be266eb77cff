"""One cell of the middleware: a load on one placement, and what each repetition of it measured."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.histogram import Histogram, merged
from looplab.report.cell import MeasuredCell
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Interval, over_runs
from looplab.report.verdicts import units

# Where the middleware runs: container, balancer, nodes, cores of a node.
Place = tuple[bool, bool, int, int]
# A round of a run: the run's id, and the number of the repetition.
Round = tuple[str, int]


@dataclass(frozen=True)
class Repetition:
    """One repetition: `round` names it in every cell of its run; `histograms` are by document.TIMES."""

    round: Round
    document: Mapping[str, Any]
    histograms: Mapping[str, Histogram]

    @property
    def processed(self) -> float:
        """Requests that succeeded in each second of the load."""
        return float(self.document.get("processed", self.document["succeeded"]) / self.document["seconds"])

    @property
    def failed_share(self) -> float:
        """The share of the ended requests that failed."""
        ended = self.document["succeeded"] + self.document["failed"]
        return float(self.document["failed"] / ended) if ended else 0.0

    @property
    def cpu_per_request(self) -> float | None:
        """Processor seconds of the middleware for a request."""
        found = self.document.get("cpu_s_per_request")
        return None if found is None else float(found)

    def time_us(self, name: str, statistic: str = "p50") -> float | None:
        """Return a figure of one of the times in microseconds, None if it is unknown or infinite."""
        found = (self.document.get(f"{name}_us") or {}).get(statistic)
        return None if found is None else float(found)


def by_unit(figures: Mapping[Round, float]) -> dict[Round, float]:
    """Return the figures of rounds by what counts once in a verdict: each run (round 0) or each round."""
    runs: dict[str, dict[Round, float]] = {}
    for name, figure in figures.items():
        runs.setdefault(name[0], {})[name] = figure
    counted = units([list(held.values()) for held in runs.values()])
    names = (
        [(run, 0) for run in runs] if len(runs) >= FEWEST_RUNS else [name for held in runs.values() for name in held]
    )
    return dict(zip(names, counted, strict=True))


@dataclass(eq=False)
class MeasuredLoad(MeasuredCell, LoadCell):
    """One load on one placement; `held` are its repetitions, empty if the cell is one of several runs."""

    held: tuple[Repetition, ...] = field(default=())

    @property
    def place(self) -> Place:
        return self.container, self.balancer, self.nodes, self.cores

    @property
    def out_of_memory(self) -> bool:
        return any(bool(cell.document.get("out_of_memory")) for cell in self.runs or (self,))

    @property
    def every(self) -> list[Repetition]:
        """The sound repetitions of all runs."""
        cells = [cell for cell in self.runs or (self,) if isinstance(cell, MeasuredLoad)]
        return [one for cell in cells for one in cell.held if not one.document.get("invalid_because")]

    def over(self, figure: Callable[[Repetition], float | None]) -> Interval:
        """Return the geometric mean of a figure over the repetitions, or over three or more runs, with its interval."""
        found = [figure(one) for one in self.every]
        known = [value for value in found if value is not None]
        if len(known) < len(found):
            return UNKNOWN
        return (
            over_runs(list(by_unit({one.round: v for one, v in zip(self.every, known, strict=True)}).values()))
            or UNKNOWN
        )

    @property
    def processed(self) -> Interval:
        return self.over(lambda one: one.processed)

    def quartiles(self) -> tuple[float, float, float] | None:
        """Return the first quartile, median and third quartile of the processed requests over the repetitions."""
        values = [one.processed for one in self.every]
        if len(values) < 2:
            return (values[0],) * 3 if values else None
        first, _, third = quantiles(values, n=4, method="inclusive")
        return first, median(values), third

    def without_extremes(self) -> float | None:
        """Return the mean of the processed requests without the highest and the lowest, as published."""
        values = sorted(one.processed for one in self.every)[1:-1]
        return sum(values) / len(values) if values else None

    def histogram(self, name: str) -> Histogram:
        """Return one of the times of all repetitions together."""
        return merged(one.histograms[name] for one in self.every if name in one.histograms)

    def times_us(self, name: str) -> Mapping[str, float | int | None]:
        """Return the figures of one of the times over all repetitions; a request without its answer takes for ever."""
        without = sum(one.document["failed"] + one.document["unfinished"] for one in self.every)
        return self.histogram(name).summary_us(without if name == "response" else 0)

    def figure(self, name: str) -> float | None:
        value = super().figure(name)
        # More requests than that have no good answer: they take infinitely long.
        return math.inf if value is None and self.valid and self.requests and name.startswith("response.") else value
