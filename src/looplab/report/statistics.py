"""How sure one can be over several runs: each figure is one value a run.

Student's t (Welch's for two sides) on the scale of the logarithm, and permutation tests of whole runs. Runs of one
round are a block: they are compared, and permuted, within it. Within one run, what varies is the repetition:
repetitions.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
# The p-values of two hypotheses: that a statement is false, and that it is true.
PValues = tuple[float, float]

CONFIDENCE = 0.95
# Fewer repetitions, or runs, than this give no interval: their spread would be a guess.
FEWEST_REPETITIONS = 3
SIGNIFICANCE = 0.05
# With fewer runs a side, a difference is shown, but gives no verdict.
FEWEST_RUNS = 3
# A permutation test is exact up to so many ways to divide the runs; of more ways, so many are drawn at random.
EXACT_SPLITS = 13_000
RANDOM_SPLITS = 5000
# The seed is fixed, so that the same runs give the same report.
SEED = 20201028


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval.

    NaN bounds where the repetitions or runs are too few to say; `high` is infinite where the interval ends beyond the
    largest value that was seen. One over runs is Student's t with so many degrees of `freedom`, on the scale of the
    logarithm of the value above `zero`.
    """

    estimate: float
    low: float = math.nan
    high: float = math.nan
    freedom: float = math.nan
    zero: float = 0.0

    @property
    def known(self) -> bool:
        return not math.isnan(self.low)

    def over(self, divisor: float) -> Interval:
        """Return the interval of the estimate divided by a number that is taken as exact."""
        return Interval(self.estimate / divisor, self.low / divisor, self.high / divisor, self.freedom)

    @property
    def change(self) -> Interval:
        """The share by which a ratio differs from 1."""
        return Interval(self.estimate - 1, self.low - 1, self.high - 1, self.freedom, -1.0)

    def within(self, low: float, high: float) -> bool | None:
        """Return whether the whole interval is inside (True) or outside (False); None if it is neither, or unknown."""
        if low <= self.low and self.high <= high:
            return True
        return False if self.high < low or self.low > high else None

    def p_below(self, bound: float) -> float:
        """Return the one-sided p-value of the truth being `bound` or more: small where it is surely less."""
        return self._p(bound, -1)

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value of the truth being `bound` or less: small where it is surely more."""
        return self._p(bound, +1)

    def p_values(self, low: float, high: float) -> PValues:
        """Return the p-values of the truth being outside and inside: below 5 % where the interval says the contrary."""
        outside = max(self.p_above(low), self.p_below(high))
        inside = min(self.p_below(low), self.p_above(high))
        return min(1.0, 2 * outside), min(1.0, 2 * inside)

    def _p(self, bound: float, way: int) -> float:
        if not self.freedom > 0:
            return 1.0
        if math.isinf(bound) or bound <= self.zero:
            return float((bound > self.zero) == (way > 0))
        low, middle, high, at = (
            math.log(max(one - self.zero, 1e-300)) for one in (self.low, self.estimate, self.high, bound)
        )
        # Rounding leaves something of values that are all alike.
        error = max((high - low) / 2 / t_quantile(self.freedom), 1e-12)
        return float(stdtr(self.freedom, way * (at - middle) / error))


UNKNOWN = Interval(math.nan)


@dataclass(frozen=True)
class Comparison:
    """`after` against `before`: geometric means of `units` figures a side, the change, and a test.

    `share` is the relative change, `change` the absolute one in the figure's unit. `least_p` is the smallest p-value
    that so many units could give.
    """

    before: float
    after: float
    share: Interval
    change: Interval
    p_value: float
    least_p: float
    units: tuple[int, int]

    def on(self, baseline: float) -> Comparison:
        """Return the same with the absolute change as a share of another baseline: a constant of both sides is gone."""
        share = replace(self.change.over(baseline), freedom=self.share.freedom, zero=-1.0)
        return replace(self, before=baseline, after=baseline * (1 + share.estimate), share=share)


def over_runs(figures: Sequence[float | None]) -> Interval | None:
    """Return the geometric mean of one figure a run, with its interval over the runs; None if a run has none."""
    values = np.array([math.nan if figure is None else figure for figure in figures])
    if not values.size or not np.isfinite(values).all():
        return None
    if values.min() <= 0:
        return Interval(float(values.mean()))
    logs = np.log(values)
    middle = float(logs.mean())
    if values.size < FEWEST_REPETITIONS:
        return Interval(math.exp(middle))
    half = t_quantile(values.size - 1) * float(logs.std(ddof=1)) / math.sqrt(values.size)
    # A float ends beyond exp(709).
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(min(middle + half, 700.0)), values.size - 1.0)


# The figures of both sides in one round.
Block = tuple[Sequence[float], Sequence[float]]


def compare(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, *, runs: bool = True
) -> Comparison | None:
    """Return the comparison of two sides, each one figure a run (or a repetition), that share no rounds.

    None where a side has too few, or a figure is missing, infinite or not above 0. The interval is Welch's on the
    scale of the logarithm, the p-value that of a studentised permutation test of whole runs. Repetitions of one run
    have none: no verdict rests on them.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (before, after)]
    if any(side.size < FEWEST_REPETITIONS or not _comparable(side) for side in sides):
        return None
    logs = np.log(sides[0]), np.log(sides[1])
    p_values = _split_p(*logs) if runs else (math.nan, math.nan)
    return _comparison(sides, _welch(*logs), _welch(*sides)[1], p_values)


def difference(before: float, after: float) -> Comparison | None:
    """Return how far two runs differ: without an interval, for their repetitions do not show how runs vary."""
    if not (0 < before < math.inf and 0 < after < math.inf):
        return None
    share, change = Interval(after / before - 1), Interval(after - before)
    return Comparison(before, after, share, change, math.nan, math.nan, (1, 1))


def changed(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return the change as a share, with its interval over repetitions; without one of too few."""
    if comparison := compare(before, after, runs=False):
        return comparison.share
    return Interval(fmean(after) / fmean(before) - 1) if before and after else UNKNOWN


def compare_blocks(blocks: Sequence[Block]) -> Comparison | None:
    """Return the comparison within `blocks`: what a round has in common, e.g. drift, is in none of the differences.

    A round counts once, by the difference of its sides. The interval is Student's t over the rounds, the p-value that
    of a studentised permutation test which permutes the runs within each round. None as for `compare`.
    """
    if len(blocks) < FEWEST_REPETITIONS or not all(_comparable(np.array(side)) for block in blocks for side in block):
        return None
    logs = [(np.log(before), np.log(after)) for before, after in blocks]
    shifts = np.array([after.mean() - before.mean() for before, after in logs])
    changes = np.array([math.exp(after.mean()) - math.exp(before.mean()) for before, after in logs])
    sides = [np.concatenate([np.asarray(block[at], dtype=np.float64) for block in blocks]) for at in (0, 1)]
    error, change_error = (float(one.std(ddof=1)) / math.sqrt(len(blocks)) for one in (shifts, changes))
    t = (float(shifts.mean()), error, len(blocks) - 1.0)
    return _comparison(sides, t, change_error, _dealt_p(logs))


def _comparable(side: Floats) -> bool:
    return bool(side.size and np.isfinite(side).all() and side.min() > 0)


def _comparison(
    sides: Sequence[Floats], t: tuple[float, float, float], change_error: float, p_values: tuple[float, float]
) -> Comparison:
    """Return a comparison from shift, error and freedom of Student's t on the scale of the logarithm."""
    shift, error, freedom = t
    # What rounding leaves of values that are all alike.
    error = error if error > 1e-12 else 0.0
    half = t_quantile(freedom)
    # A float ends beyond exp(709).
    low, middle, high = (math.expm1(min(shift + k * half * error, 700.0)) for k in (-1, 0, 1))
    before = math.exp(float(np.log(sides[0]).mean()))
    change = before * middle
    return Comparison(
        before=before,
        after=before * (1 + middle),
        share=Interval(middle, low, high, freedom, -1.0),
        change=Interval(change, change - half * change_error, change + half * change_error),
        p_value=p_values[0],
        least_p=p_values[1],
        units=(sides[0].size, sides[1].size),
    )


def _split_p(before: Floats, after: Floats) -> tuple[float, float]:
    """Return the two-sided p-value of all ways to split the units into two sides, and the smallest that there could be.

    It is studentised, so that unequal spreads do not pass for a shift; exact up to EXACT_SPLITS.
    """
    from scipy.stats import permutation_test

    ways = math.comb(before.size + after.size, before.size)
    exact = ways <= EXACT_SPLITS
    # Values are centred: otherwise rounding would make a mirrored split differ from the original one.
    middle = np.concatenate([before, after]).mean()
    tested = permutation_test(
        (before - middle, after - middle),
        _welch_squares,
        n_resamples=ways if exact else RANDOM_SPLITS,
        alternative="greater",
        vectorized=True,
        rng=SEED,
    )
    least = least_p(before.size, after.size) if exact else 1 / (1 + RANDOM_SPLITS)
    return float(tested.pvalue), least


def _welch_squares(before: Floats, after: Floats, axis: int = -1) -> Floats:
    """Return the square of Welch's t; rounded, for sides that differ in their order alone."""
    errors = sum(side.var(axis=axis, ddof=1) / side.shape[axis] for side in (before, after))
    squares: Floats = (after.mean(axis=axis) - before.mean(axis=axis)) ** 2 / np.maximum(errors, 1e-24)
    # Rounded to single precision, equal values compare as equal.
    return squares.astype(np.float32).astype(np.float64)


def _dealt_p(blocks: Sequence[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Return the p-value with runs permuted within each block, and the smallest possible one.

    scipy's test permutes within pairs alone: sides of one run.
    """
    ways = []
    for before, after in blocks:
        both, size = np.concatenate([before, after]), len(before)
        taken = np.array(list(itertools.combinations(range(both.size), size)))
        first = both[taken].sum(axis=1)
        ways.append((both.sum() - first) / (both.size - size) - first / size)
    count = math.prod(len(one) for one in ways)
    if exact := count <= EXACT_SPLITS:
        dealt: Floats = np.stack(np.meshgrid(*ways, indexing="ij"), axis=-1).reshape(count, len(ways))
    else:
        rng = np.random.default_rng(len(ways))
        dealt = np.stack([rng.choice(one, RANDOM_SPLITS) for one in ways], axis=1)
    # The first way of each block is the one that was.
    seen = np.array([[one[0] for one in ways]])
    # Rounding must not tell a mirrored split from the one that was.
    beyond = int((_t_squares(dealt) >= _t_squares(seen) * (1 - 1e-9)).sum())
    if not exact:
        return (1 + beyond) / (1 + RANDOM_SPLITS), 1 / (1 + RANDOM_SPLITS)
    mirrored = all(len(before) == len(after) for before, after in blocks)
    return beyond / count, (2 if mirrored else 1) / count


def _t_squares(differences: Floats) -> Floats:
    """Return the square of Student's t of each row."""
    mean, spread = differences.mean(axis=1), differences.var(axis=1, ddof=1)
    squares: Floats = mean**2 / np.maximum(spread, 1e-24)
    return squares


def _welch(before: Floats, after: Floats) -> tuple[float, float, float]:
    """Return the shift, its standard error and degrees of freedom."""
    errors = [float(side.var(ddof=1)) / side.size for side in (before, after)]
    parts = sum(error**2 / (side.size - 1) for error, side in zip(errors, (before, after), strict=True))
    freedom = max(sum(errors) ** 2 / parts, 1.0) if parts else 1.0
    return float(after.mean() - before.mean()), math.sqrt(sum(errors)), freedom


def t_quantile(freedom: float) -> float:
    """Return half the width of a 95 % interval in standard errors, by Student's t."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def least_p(before: int, after: int) -> float:
    """Return the smallest two-sided p-value that an exact permutation test of so many runs a side can have."""
    # Sides of one size can be exchanged: the mirrored split differs as much.
    return (2 if before == after else 1) / math.comb(before + after, before)


def holm(questions: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the p-values adjusted for having asked all these questions (Holm 1979), in the order given.

    Of the hypotheses of one question, e.g. "no difference" and "a difference that matters", at most one is true
    (Shaffer 1986): a question counts until all of its hypotheses are rejected.
    """
    adjusted = [[0.0] * len(one) for one in questions]
    left = [len(one) for one in questions]
    highest = 0.0
    for at, which in sorted(
        ((a, w) for a, one in enumerate(questions) for w in range(len(one))),
        key=lambda place: questions[place[0]][place[1]],
    ):
        highest = max(highest, min(1.0, sum(map(bool, left)) * questions[at][which]))
        adjusted[at][which] = highest
        left[at] -= 1
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
