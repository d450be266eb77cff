"""The report on the middleware: cores, nodes, containers and the balancer, beside the paper's findings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.histogram import Histogram, merged
from looplab.report.cell import Key, MeasuredCell
from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Interval, over_runs
from looplab.report.stored import StoredRun, Unusable
from looplab.report.verdicts import units

PAGE = "middleware.html"
# Where the middleware runs: container, balancer, nodes, cores of a node.
Place = tuple[bool, bool, int, int]
# A round of a run: the run's id, and the number of the repetition.
Round = tuple[str, int]


@dataclass(eq=False)
class Repetition(MeasuredCell, LoadCell):
    """One repetition of a cell: `round` names it in every cell of its run; `histograms` are by document.TIMES."""

    round: Round = ("", 0)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


@dataclass(eq=False)
class MeasuredLoad(MeasuredCell, LoadCell):
    """One load on one placement; `repeated` are its repetitions, empty if the cell is one of several runs."""

    repeated: tuple[Repetition, ...] = ()

    @property
    def place(self) -> Place:
        return self.container, self.balancer, self.nodes, self.cores

    @property
    def starved(self) -> bool:
        """Whether a run of it ran out of memory."""
        return any(bool(cell.out_of_memory) for cell in self.runs or (self,))

    @property
    def every(self) -> list[Repetition]:
        """The sound repetitions of all runs."""
        cells = [cell for cell in self.runs or (self,) if isinstance(cell, MeasuredLoad)]
        return [one for cell in cells for one in cell.repeated if not one.document.get("invalid_because")]

    def by_round(self, name: str) -> dict[Round, float]:
        """Return a figure of each sound repetition that has it."""
        return {one.round: value for one in self.every if (value := one.figure(name)) is not None}

    def interval(self, name: str) -> Interval:
        """Return the geometric mean of a figure over the repetitions, or over three or more runs, with its interval."""
        figures = self.by_round(name)
        if len(figures) < len(self.every):
            return UNKNOWN
        return over_runs(list(by_unit(figures).values())) or UNKNOWN

    def quartiles(self) -> list[float]:
        """Return the first quartile, median and third quartile of the processed requests over the repetitions."""
        values = list(self.by_round("processed_per_s").values())
        return [float(one) for one in np.quantile(values, (0.25, 0.5, 0.75))] if values else []

    def without_extremes(self) -> float | None:
        """Return the mean of the processed requests without the highest and the lowest, as published."""
        values = sorted(self.by_round("processed_per_s").values())[1:-1]
        return sum(values) / len(values) if values else None

    def histogram(self, name: str) -> Histogram:
        """Return one of the times of all repetitions together."""
        return merged(one.histograms[name] for one in self.every if name in one.histograms)

    def times_us(self, name: str) -> Mapping[str, float | int | None]:
        """Return the figures of one of the times over all repetitions; a request without its answer takes for ever."""
        without = sum(one.failed + one.unfinished for one in self.every)
        return self.histogram(name).summary_us(without if name == "response" else 0)

    def figure(self, name: str) -> float | None:
        value = super().figure(name)
        # More requests than that have no good answer: they take infinitely long.
        return math.inf if value is None and self.valid and self.requests and name.startswith("response.") else value


CELLS = {"": MeasuredLoad}


def by_unit(figures: Mapping[Round, float]) -> dict[Round, float]:
    """Return the figures of rounds by what counts once in a verdict: each run (round 0) or each round."""
    runs: dict[str, dict[Round, float]] = {}
    for name, figure in figures.items():
        runs.setdefault(name[0], {})[name] = figure
    counted = units([list(rounds.values()) for rounds in runs.values()])
    names = [(run, 0) for run in runs] if len(runs) >= FEWEST_RUNS else list(figures)
    return dict(zip(names, counted, strict=True))


def load_cells(run: Measured | None) -> list[MeasuredLoad]:
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredLoad)] if run else []


def usable(run: Measured | None) -> list[MeasuredLoad]:
    """Return the valid cells that did not run out of memory, by growing load."""
    cells = [cell for cell in load_cells(run) if cell.valid and not cell.starved and cell.every]
    return sorted(cells, key=lambda cell: cell.devices)


def by_place(cells: Iterable[MeasuredLoad]) -> dict[Place, list[MeasuredLoad]]:
    """Return the cells of each placement, in the order of cores."""
    places: dict[Place, list[MeasuredLoad]] = {}
    for cell in cells:
        places.setdefault(cell.place, []).append(cell)
    return dict(sorted(places.items()))


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if its files do not agree."""
    # Imported late: a list of stored runs needs no columnar library.
    cells: Mapping[Key, MeasuredCell] | Unusable = import_module(f"{__name__}.reading").read(run)
    return cells
