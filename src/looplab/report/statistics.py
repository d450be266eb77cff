"""How sure one can be over several runs: each figure is one value a run.

Student's t (Welch's for two sides) on the scale of the logarithm, and permutation tests of whole runs. Within one run,
what varies is the repetition: repetitions.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
# Fewer repetitions, or runs, than this give no interval: their spread would be a guess.
FEWEST_REPETITIONS = 3
SIGNIFICANCE = 0.05
# Fewer runs a side show a difference and give no verdict.
FEWEST_RUNS = 3
# Every split of the runs is tried up to so many, then so many at random.
EXACT_SPLITS = 13_000
RANDOM_SPLITS = 5000
# So many multiplications at once fit a processor's cache, and numpy's library shares out no fewer among threads, which
# would wait for each other in a loop.
_AT_ONCE = 200_000


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval.

    NaN bounds where the repetitions or runs are too few to say; `high` is infinite where the interval ends beyond the
    largest value that was seen.
    """

    estimate: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        return not math.isnan(self.low)

    def over(self, divisor: float) -> Interval:
        """Return the interval of the estimate divided by a number that is taken as exact."""
        return Interval(self.estimate / divisor, self.low / divisor, self.high / divisor)

    @property
    def change(self) -> Interval:
        """The share by which a ratio differs from 1."""
        return Interval(self.estimate - 1, self.low - 1, self.high - 1)


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Comparison:
    """`after` against `before`: geometric means of `units` figures a side, the share of the change, and a test.

    `least_p` is the smallest p-value that so many units could give, `effect_size` the shift in SD of a unit.
    """

    before: float
    after: float
    share: Interval
    p_value: float
    least_p: float
    effect_size: float
    units: tuple[int, int]


def over_runs(figures: Sequence[float | None]) -> Interval | None:
    """Return the geometric mean of one figure a run, with its interval over the runs; None if a run has none."""
    values = np.array([math.nan if figure is None else figure for figure in figures])
    if not values.size or not np.isfinite(values).all():
        return None
    if values.min() <= 0:
        return Interval(float(values.mean()), math.nan, math.nan)
    logs = np.log(values)
    middle = float(logs.mean())
    if values.size < FEWEST_REPETITIONS:
        return Interval(math.exp(middle), math.nan, math.nan)
    half = t_quantile(values.size - 1) * float(logs.std(ddof=1)) / math.sqrt(values.size)
    # A float ends beyond exp(709).
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(min(middle + half, 700.0)))


def compare(before: Sequence[float] | Floats, after: Sequence[float] | Floats) -> Comparison | None:
    """Return the comparison of two sides, each one figure a run (or a repetition).

    None where a side has too few, or a figure is missing, infinite or not above 0. The interval is Welch's on the
    scale of the logarithm, the p-value that of a studentised permutation test of whole units.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (before, after)]
    if any(side.size < FEWEST_REPETITIONS or not np.isfinite(side).all() or side.min() <= 0 for side in sides):
        return None
    logs = [np.log(side) for side in sides]
    shift, half = _welch(logs[0][np.newaxis], logs[1][np.newaxis])
    p = permutation_p(logs[0][np.newaxis], logs[1][np.newaxis])
    low, middle, high = (math.expm1(min(float(value), 700.0)) for value in (*(shift - half), *shift, *(shift + half)))
    spread = math.sqrt(float(np.mean([log.var(ddof=1) for log in logs])))
    units = (sides[0].size, sides[1].size)
    return Comparison(
        before=math.exp(logs[0].mean()),
        after=math.exp(logs[1].mean()),
        share=Interval(middle, low, high),
        p_value=float(p[0]),
        least_p=least_p(*units) if math.comb(sum(units), units[0]) <= EXACT_SPLITS else 1 / (1 + RANDOM_SPLITS),
        effect_size=float(shift[0]) / spread if spread else math.nan,
        units=units,
    )


def called(before: Floats, after: Floats) -> NDArray[np.bool_]:
    """Return which rows a verdict calls different: interval and permutation test agree. Logarithms, a unit a column."""
    shift, half = _welch(before, after)
    found: NDArray[np.bool_] = (np.abs(shift) > half) & (permutation_p(before, after) < SIGNIFICANCE)
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for having asked all these questions (Holm 1979), in the order given."""
    count, highest = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, at in enumerate(sorted(range(count), key=lambda k: p_values[k])):
        highest = max(highest, min(1.0, (count - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def answerable(least: Sequence[float]) -> list[int]:
    """Return which questions count, by the smallest p-value that each could have (Tarone 1990).

    One that could not reach SIGNIFICANCE among the others, whatever its data, is no chance to err.
    """
    for count in range(1, len(least) + 1):
        reachable = [at for at, p_value in enumerate(least) if p_value <= SIGNIFICANCE / count]
        if len(reachable) <= count:
            return reachable
    return []


def permutation_p(before: Floats, after: Floats) -> Floats:
    """Return the two-sided p-value of each row; studentised, so that unequal spreads do not pass for a shift.

    Exact where all splits into two sides can be tried, else of RANDOM_SPLITS.
    """
    both = np.concatenate([before, after], axis=1)
    both = both - both.mean(axis=1, keepdims=True)
    # What rounding leaves of values that are all alike.
    both[np.abs(both) < 1e-12] = 0.0
    squares = both**2
    size, count = before.shape[1], both.shape[1]
    taken = np.arange(count) < size
    shift, error = _welch_squares(both @ taken[:, np.newaxis], squares @ taken[:, np.newaxis], squares, size)
    seen = np.divide(shift, error, out=np.zeros_like(shift), where=error > 0) * (1 - 1e-9) ** 2
    splits, exact = _splits(size, count)
    beyond = np.zeros(len(both))
    for some in np.array_split(splits, -(-splits.size * len(both) // _AT_ONCE)):
        shift, error = _welch_squares(both @ some.T, squares @ some.T, squares, size)
        beyond += (shift >= seen * error).sum(axis=1)
    p: Floats = beyond / len(splits) if exact else (1 + beyond) / (1 + len(splits))
    return p


@cache
def _splits(size: int, count: int) -> tuple[Floats, bool]:
    """Return the ways to take `size` of `whole` units, one a row of 0 and 1, and whether these are all."""
    if math.comb(count, size) <= EXACT_SPLITS:
        taken = np.array(list(itertools.combinations(range(count), size)))
    else:
        taken = np.random.default_rng(count).permuted(
            np.broadcast_to(np.arange(count), (RANDOM_SPLITS, count)), axis=1
        )[:, :size]
    rows = np.zeros((len(taken), count))
    np.put_along_axis(rows, taken, 1.0, axis=1)
    return rows, math.comb(count, size) <= EXACT_SPLITS


def _welch_squares(sums: Floats, of_squares: Floats, squares: Floats, size: int) -> tuple[Floats, Floats]:
    """Return numerator and denominator of the square of Welch's t, from the first side's sums; rows are centred.

    Without a division: their quotient is compared for each of many splits.
    """
    other = squares.shape[1] - size
    total = squares.sum(axis=1, keepdims=True)
    # The second side's sum is the negative one of the first. Rounding may leave a side alike less than nothing.
    alike = sums**2
    error = np.maximum(of_squares - alike / size, 1e-12 * total) / ((size - 1) * size)
    error += np.maximum(total - of_squares - alike / other, 1e-12 * total) / ((other - 1) * other)
    return alike * (1 / size + 1 / other) ** 2, error


def _welch(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the shift of each row and half the width of its interval."""
    errors = [side.var(axis=1, ddof=1) / side.shape[1] for side in (before, after)]
    total = errors[0] + errors[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [error**2 / (side.shape[1] - 1) for error, side in zip(errors, (before, after), strict=True)]
        freedom = np.nan_to_num(total**2 / (parts[0] + parts[1]), nan=1.0)
    t = stdtrit(np.maximum(freedom, 1.0), 0.5 + CONFIDENCE / 2)
    return after.mean(axis=1) - before.mean(axis=1), t * np.sqrt(total)


def t_quantile(freedom: float) -> float:
    """Return half the width of a 95 % interval in standard errors, by Student's t."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def least_p(before: int, after: int) -> float:
    """Return the smallest two-sided p-value that an exact permutation test of so many runs a side can have."""
    # Sides of one size can be exchanged: the mirrored split differs as much.
    return (2 if before == after else 1) / math.comb(before + after, before)
