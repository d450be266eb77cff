"""The report on the middleware: cores, nodes, containers and the balancer, beside the paper's findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import FATES, KEYS
from looplab.report.cell import Key, MeasuredCell
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Interval, over_runs
from looplab.report.stored import StoredRun, Unusable
from looplab.system.histogram import Histogram

if TYPE_CHECKING:
    import pandas as pd

PAGE = "middleware.html"
# What counts once in a verdict: a run (number 0), or a repetition of it by number.
Unit = tuple[str, int]
# Figures of a repetition; the median since a request was sent is the paper's time at the client.
PROCESSED, CLIENT, SERVER = "processed_per_s", "sent_response.p50", "server.p50"
_CELL = [*KEYS, "repetition"]
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Repetition(MeasuredCell, LoadCell):
    """One repetition of a cell: `unit` names it in every cell of its run; `histograms` are by document.TIMES."""

    unit: Unit = ("", 0)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


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

    def each(self, name: str) -> list[float]:
        """Return a figure of each sound repetition that has it."""
        return [value for one in self.every if (value := one.figure(name)) is not None]

    def by_unit(self, figure: str | Callable[[Repetition], float]) -> dict[Unit, float]:
        """Return a figure of each run, the mean of its sound repetitions; of fewer than three runs, of each
        repetition."""
        by_run: dict[str, dict[Unit, float]] = {}
        for one in self.every:
            if (value := one.figure(figure) if isinstance(figure, str) else figure(one)) is not None:
                by_run.setdefault(one.unit[0], {})[one.unit] = value
        if len(by_run) >= FEWEST_RUNS:
            return {(run, 0): fmean(values.values()) for run, values in by_run.items()}
        return {unit: value for values in by_run.values() for unit, value in values.items()}

    def interval(self, name: str) -> Interval:
        """Return the geometric mean of a figure over the repetitions, or over three or more runs, with its interval."""
        if len(self.each(name)) < len(self.every):
            return UNKNOWN
        return over_runs(list(self.by_unit(name).values())) or UNKNOWN

    def kept(self, name: str, trimmed: bool) -> list[Repetition]:
        """Return the sound repetitions that have a figure, by its size; `trimmed`, without the lowest and the highest.

        As the paper does. Of two repetitions both are kept.
        """
        known = [(value, one) for one in self.every if (value := one.figure(name)) is not None]
        each = [one for _, one in sorted(known, key=lambda pair: pair[0])]
        return each[1:-1] if trimmed and len(each) > 2 else each

    def quartiles(self, trimmed: bool = False) -> list[float]:
        """Return the first quartile, median and third quartile of the processed requests over the repetitions."""
        values = [one.figure(PROCESSED) or 0.0 for one in self.kept(PROCESSED, trimmed)]
        return [float(one) for one in np.quantile(values, (0.25, 0.5, 0.75))] if values else []

    def figure(self, name: str) -> float | None:
        value = super().figure(name)
        # More requests than that have no good answer: they take infinitely long.
        return math.inf if value is None and self.valid and self.requests and name.startswith("response.") else value


CELLS = {"": MeasuredLoad}


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if samples.csv or histograms.csv does not agree with run.json."""
    # Imported late: a list of stored runs needs no columnar library.
    from looplab.report.csv_file import WORD, Unreadable, read_csv

    numbers, counts = (*_CELL, "upper_ns", "count"), ["due", *FATES]
    try:
        samples = read_csv(run.path / "samples.csv", dict.fromkeys((*_CELL, *counts), "int64"))
        lines = read_csv(run.path / "histograms.csv", {**dict.fromkeys(numbers, "int64"), "time": WORD})
    except Unreadable as error:
        return run.damaged(f"Its files cannot be read ({error}).")
    counted = samples.groupby(_CELL)[counts].sum().T.to_dict("list")
    histograms = _histograms(lines)
    cells = {}
    for key, document in run.cells.items():
        repeated = []
        for entry in document["by_repetition"] or ():
            at = (*map(int, key), int(entry["repetition"]))
            times = histograms.get(at, {})
            if trouble := _disagreement(entry, counted.get(at, [0] * len(counts)), times):
                return run.damaged(f"{trouble} at {run.layout.text(key)}. A file was cut short or edited.")
            one = {**dict(zip(KEYS, key, strict=True)), **entry}
            repeated.append(Repetition(one, _NOTHING, {}, unit=(run.run_id, at[-1]), histograms=times))
        cells[key] = MeasuredLoad(document, _NOTHING, {}, repeated=tuple(repeated))
    return cells


def _histograms(lines: pd.DataFrame) -> dict[tuple[int, ...], dict[str, Histogram]]:
    """Return the histograms of each repetition, by the times that they are of."""
    histograms: dict[tuple[int, ...], dict[str, Histogram]] = {}
    for (*at, name), part in lines.groupby([*_CELL, "time"], observed=True):
        counts = dict(zip(part["upper_ns"].tolist(), part["count"].tolist(), strict=True))
        histograms.setdefault(tuple(at), {})[name] = Histogram(counts, min_ns=min(counts), max_ns=max(counts))
    return histograms


def _disagreement(entry: Mapping[str, Any], counted: list[int], times: Mapping[str, Histogram]) -> str:
    for name, count in zip(("requests", *FATES), counted, strict=True):
        if count != entry[name]:
            return f"samples.csv and run.json disagree: {count} against {entry[name]} {name}"
    timed = times["response"].count if "response" in times else 0
    return "" if timed == entry["succeeded"] else f"histograms.csv holds {timed} of {entry['succeeded']} responses"
