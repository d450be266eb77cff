"""The report on the middleware: cores, nodes, containers and the balancer, beside the paper's findings."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import KEYS
from looplab.report.cell import Key, MeasuredCell
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Interval, over_runs
from looplab.report.stored import StoredRun

PAGE = "middleware.html"
# What counts once in a verdict: a run (number 0), or a repetition of it by number.
Unit = tuple[str, int]
# Figures of a repetition; the median since a request was sent is the paper's time at the client.
PROCESSED, CLIENT, SERVER = "processed_per_s", "sent_response.p50", "server.p50"
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Repetition(MeasuredCell, LoadCell):
    """One repetition of a cell: `unit` names it in every cell of its run."""

    unit: Unit = ("", 0)


@dataclass(eq=False)
class MeasuredLoad(MeasuredCell, LoadCell):
    """One load on one placement; `repeated` are its repetitions, empty if the cell is one of several runs."""

    repeated: tuple[Repetition, ...] = ()

    @property
    def starved(self) -> bool:
        """Whether a run of it ran out of memory."""
        return any(bool(cell.out_of_memory) for cell in self.runs or (self,))

    @property
    def every(self) -> list[Repetition]:
        """The sound repetitions of all runs."""
        cells = [cell for cell in self.runs or (self,) if isinstance(cell, MeasuredLoad)]
        return [one for cell in cells for one in cell.repeated if not one.document.get("invalid_because")]

    def by_unit(self, figure: str | Callable[[Repetition], float]) -> dict[Unit, float]:
        """Return a figure of each run, the mean of its sound repetitions; of fewer than three runs, of each
        repetition."""
        figures = {one.unit: one.figure(figure) if isinstance(figure, str) else figure(one) for one in self.every}
        known = {unit: value for unit, value in figures.items() if value is not None}
        runs = dict.fromkeys(run for run, _ in known)
        if len(runs) < FEWEST_RUNS:
            return known
        return {(run, 0): fmean(value for unit, value in known.items() if unit[0] == run) for run in runs}

    def interval(self, name: str) -> Interval:
        """Return the geometric mean of a figure over the repetitions, or over three or more runs, with its interval."""
        if None in [one.figure(name) for one in self.every]:
            return UNKNOWN
        return over_runs(list(self.by_unit(name).values())) or UNKNOWN

    def figure(self, name: str) -> float | None:
        value = super().figure(name)
        # More requests than that have no good answer: they take infinitely long.
        return math.inf if value is None and self.valid and self.requests and name.startswith("response.") else value


CELLS = {"": MeasuredLoad}


def read(run: StoredRun) -> Mapping[Key, MeasuredCell]:
    """Return the cells of a run by key, with their repetitions."""
    return {key: _load(run.run_id, dict(zip(KEYS, key, strict=True)), cell) for key, cell in run.cells.items()}


def _load(run_id: str, key: Mapping[str, Any], cell: Mapping[str, Any]) -> MeasuredLoad:
    repeated = [
        Repetition({**key, **one}, _NOTHING, {}, unit=(run_id, int(one["repetition"])))
        for one in cell["by_repetition"] or ()
    ]
    return MeasuredLoad(cell, _NOTHING, {}, repeated=tuple(repeated))
