"""The optimal load of a placement: the number of devices at which it processes most requests, with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from looplab.experiments.middleware import place_text
from looplab.experiments.middleware.report import MeasuredLoad, Place, by_place, by_unit, usable
from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_REPETITIONS, Floats, Interval
from looplab.report.verdicts import SEED

RESAMPLES = 4000
# Where the optimum is the first or the last of the loads, the true one may be beyond; an only load has none.
FIRST, LAST, ONLY = "first", "last", "only"


@dataclass(frozen=True)
class Optimum:
    """`devices` has an interval from resampled rounds (or runs); `by_round` holds the best load of each.

    `edge` is FIRST, LAST or ONLY where that is the first, last or only load measured, else "".
    """

    place: Place
    devices: Interval
    processed: float
    by_round: Sequence[float]
    edge: str

    @property
    def load(self) -> int:
        return round(self.devices.estimate)

    @property
    def remark(self) -> str:
        """What the edge means, as a sentence."""
        return f"{place_text(*self.place)}: " + {
            FIRST: f"the lowest load of the run, {self.load} devices, already overloads it; the optimal load may be "
            "below it.",
            LAST: f"the highest load of the run, {self.load} devices, was the best; the optimal load may be above it.",
            ONLY: f"no other load than {self.load} devices was measured.",
        }.get(self.edge, "")


def optimum(cells: Sequence[MeasuredLoad]) -> Optimum:
    """Return the optimal load of one placement; `cells` are its loads, at least one."""
    loads = np.array([cell.devices for cell in cells], dtype=np.float64)
    rounds = _rounds(cells)
    means = np.array([cell.interval("processed_per_s").estimate for cell in cells])
    best = int(np.argmax(means))
    edge = ONLY if len(cells) < 2 else FIRST if best == 0 else LAST if best == len(cells) - 1 else ""
    low = high = float("nan")
    if len(rounds) >= FEWEST_REPETITIONS:
        rng = np.random.default_rng(SEED)
        drawn = rng.integers(0, len(rounds), (RESAMPLES, len(rounds)))
        best_loads = loads[np.argmax(rounds[drawn].mean(axis=1), axis=1)]
        low, high = (float(np.quantile(best_loads, share, method="nearest")) for share in (0.025, 0.975))
    by_round = loads[np.argmax(rounds, axis=1)].tolist() if len(rounds) else []
    return Optimum(cells[0].place, Interval(float(loads[best]), low, high), float(means[best]), by_round, edge)


def optima(run: Measured | None) -> dict[Place, Optimum]:
    """Return the optimal load of each placement."""
    return {place: optimum(cells) for place, cells in by_place(usable(run)).items()}


def _rounds(cells: Sequence[MeasuredLoad]) -> Floats:
    """Return what each round processed at each load, a round a row; rounds that lack a load are left out.

    Of three or more runs, a row is a run with the means of its rounds.
    """
    figures = [cell.by_round("processed_per_s") for cell in cells]
    rounds = [name for name in figures[0] if all(name in one for one in figures)]
    columns = [list(by_unit({name: one[name] for name in rounds}).values()) for one in figures]
    return np.array(columns, dtype=np.float64).reshape(len(cells), -1).T
