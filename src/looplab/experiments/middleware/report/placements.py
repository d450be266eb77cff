"""The placements of a run: their loads, the load at which each processes most, and what the paper prints of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from looplab.experiments.middleware import Placement
from looplab.experiments.middleware.report import PROCESSED, MeasuredLoad, Unit
from looplab.report.printed import printed
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import FEWEST_REPETITIONS, SEED, Interval

RESAMPLES = 4000
# Bare metal and container, on the same cores under the same load.
Pair = tuple[MeasuredLoad, MeasuredLoad]


def load_cells(run: MeasuredRuns) -> list[MeasuredLoad]:
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredLoad)]


def places(run: MeasuredRuns) -> dict[Placement, list[MeasuredLoad]]:
    """Return the valid cells that did not run out of memory by placement, in the order of cores and of load."""
    by_place: dict[Placement, list[MeasuredLoad]] = {}
    for cell in sorted(load_cells(run), key=lambda cell: (cell.place, cell.devices)):
        if cell.valid and not cell.starved and cell.every:
            by_place.setdefault(cell.place, []).append(cell)
    return by_place


def container_pairs(run: MeasuredRuns) -> list[Pair]:
    """Return (bare metal, container) of each number of cores and load that was measured on both."""
    by_key = {cell.key: cell for cells in places(run).values() for cell in cells}
    pairs = [(cell, by_key.get((True, *key[1:]))) for key, cell in by_key.items() if not cell.container]
    return [(bare, boxed) for bare, boxed in pairs if boxed is not None]


@dataclass(frozen=True)
class Optimum:
    """The optimal load of a placement: `devices` has an interval from resampled rounds (or runs).

    `by_round` holds the best load of each; `remark` says, in words, why the true one may be another load, or "".
    """

    place: Placement
    devices: Interval
    processed: float
    by_round: Sequence[float]
    remark: str

    @property
    def load(self) -> int:
        return round(self.devices.estimate)


def optimum(cells: Sequence[MeasuredLoad]) -> Optimum:
    """Return the optimal load of one placement; `cells` are its loads, at least one, by growing load."""
    loads = np.array([cell.devices for cell in cells], dtype=np.float64)
    figures = [cell.by_unit(PROCESSED) for cell in cells]
    # A round that lacks a load is left out.
    units = [unit for unit in figures[0] if all(unit in one for one in figures)]
    rounds = np.array([[one[unit] for one in figures] for unit in units]).reshape(-1, len(cells))
    means = np.array([cell.interval(PROCESSED).estimate for cell in cells])
    best = int(np.argmax(means))
    low = high = float("nan")
    if len(rounds) >= FEWEST_REPETITIONS:
        drawn = np.random.default_rng(SEED).integers(0, len(rounds), (RESAMPLES, len(rounds)))
        best_loads = loads[np.argmax(rounds[drawn].mean(axis=1), axis=1)]
        low, high = (float(np.quantile(best_loads, share, method="nearest")) for share in (0.025, 0.975))
    by_round = loads[np.argmax(rounds, axis=1)].tolist() if len(rounds) else []
    devices = Interval(float(loads[best]), low, high)
    return Optimum(cells[0].place, devices, float(means[best]), by_round, _remark(best, len(cells)))


def best_loads(cells: Sequence[MeasuredLoad]) -> dict[Unit, int]:
    """Return for each round (or run) the load at which the rounds of the other half process most: cross-fitting.

    A round that chose its own load would be compared where chance favoured it. `cells` are of one placement or more.
    """
    figures = [(cell.devices, cell.by_unit(PROCESSED)) for cell in cells]
    units = sorted(set.intersection(*(set(one) for _, one in figures))) if figures else []
    best = {}
    for at, unit in enumerate(units):
        others = units[(at + 1) % 2 :: 2] or units
        best[unit] = max(figures, key=lambda one: fmean(one[1][other] for other in others))[0]
    return best


def _remark(best: int, loads: int) -> str:
    if loads < 2:
        return "the only load"
    if best == 0:
        return "already the lowest load overloads it; the optimal load may be below it"
    return "the highest load was the best; the optimal load may be above it" if best == loads - 1 else ""


def optima(run: MeasuredRuns) -> list[Optimum]:
    """Return the optimal load of each placement."""
    return [optimum(cells) for cells in places(run).values()]


@cache
def published(what: str) -> dict[Placement, float]:
    """Return the printed figures of one kind: `optimal load`, `processed` or `memory share`.

    The paper's text gives the optimal loads of Figures 2 and 3; its Table 1 the messages processed in ten minutes at
    2030 devices and the memory at the start, as a share of the machine's.
    """
    return {
        Placement(True, line["balancer"] == "yes", int(line["nodes"]), int(line["cores"])): float(line["value"])
        for line in printed(__file__, "middleware.csv")
        if line["what"] == what
    }
