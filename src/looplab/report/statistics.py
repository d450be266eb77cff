"""How sure one can be over several runs: each figure is one value a run.

Student's t (Welch's for two sides) on the scale of the logarithm, and permutation tests of whole runs. Runs of one
round are a block: they are compared, and dealt out anew, within it. Within one run, what varies is the repetition:
repetitions.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

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
    """`after` against `before`: geometric means of `units` figures a side, the change, and a test.

    `share` is the relative change, `change` the absolute one in the figure's unit. `least_p` is the smallest p-value
    that so many units could give, `effect_size` the shift in SD of a unit. The shift of the logarithm has a standard
    `error` with so many degrees of `freedom`; `blocks` is how many rounds it was taken within, 0 for none.
    """

    before: float
    after: float
    share: Interval
    change: Interval
    p_value: float
    least_p: float
    effect_size: float
    units: tuple[int, int]
    error: float
    freedom: float
    blocks: int = 0

    @property
    def shift(self) -> float:
        """The change on the scale of the logarithm."""
        return math.log1p(self.share.estimate)

    def p_below(self, share: float) -> float:
        """Return the one-sided p-value of the change being `share` or more: small where it is surely less."""
        return self._p(self.shift - math.log1p(share))

    def p_above(self, share: float) -> float:
        """Return the one-sided p-value of the change being `share` or less: small where it is surely more."""
        return self._p(math.log1p(share) - self.shift)

    def _p(self, beyond: float) -> float:
        return float(stdtr(self.freedom, beyond / self.error)) if self.error > 0 else float(beyond >= 0)


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
    if any(side.size < FEWEST_REPETITIONS or not _comparable(side) for side in sides):
        return None
    logs = [np.log(side)[np.newaxis] for side in sides]
    shift, error, freedom = (float(one[0]) for one in _welch(*logs))
    units = (sides[0].size, sides[1].size)
    return _comparison(
        sides,
        (shift, error, freedom),
        change_error=float(_welch(sides[0][np.newaxis], sides[1][np.newaxis])[1][0]),
        p_value=float(permutation_p(*logs)[0]),
        least=least_p(*units) if math.comb(sum(units), units[0]) <= EXACT_SPLITS else 1 / (1 + RANDOM_SPLITS),
        spread=math.sqrt(float(np.mean([log.var(ddof=1) for log in logs]))),
    )


# The figures of both sides in one round.
Block = tuple[Sequence[float], Sequence[float]]


def compare_blocks(blocks: Sequence[Block]) -> Comparison | None:
    """Return the comparison within `blocks`: what a round has in common, e.g. drift, is in none of the differences.

    A round counts once, by the difference of its sides. The interval is Student's t over the rounds, the p-value that
    of a studentised permutation test which deals out the runs of each round anew. None as for `compare`.
    """
    if len(blocks) < FEWEST_REPETITIONS or not all(_comparable(np.array(side)) for block in blocks for side in block):
        return None
    logs = [(np.log(before), np.log(after)) for before, after in blocks]
    shifts = np.array([after.mean() - before.mean() for before, after in logs])
    changes = np.array([math.exp(after.mean()) - math.exp(before.mean()) for before, after in logs])
    p_value, least = _blocked_p(logs)
    sides = [np.concatenate([np.asarray(block[at], dtype=np.float64) for block in blocks]) for at in (0, 1)]
    within = [side - side.mean() for block in logs for side in block if side.size > 1]
    # Of one run a side and round, its differences vary by the SD of two runs.
    squares = sum(float(side @ side) for side in within) / max(1, sum(side.size - 1 for side in within))
    spread = math.sqrt(squares) if within else float(shifts.std(ddof=1)) / math.sqrt(2)
    error, change_error = (float(one.std(ddof=1)) / math.sqrt(len(blocks)) for one in (shifts, changes))
    t = (float(shifts.mean()), error, len(blocks) - 1.0)
    return _comparison(sides, t, change_error, p_value, least, spread, len(blocks))


def _comparable(side: Floats) -> bool:
    return bool(side.size and np.isfinite(side).all() and side.min() > 0)


def _comparison(
    sides: Sequence[Floats],
    t: tuple[float, float, float],
    change_error: float,
    p_value: float,
    least: float,
    spread: float,
    blocks: int = 0,
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
        share=Interval(middle, low, high),
        change=Interval(change, change - half * change_error, change + half * change_error),
        p_value=p_value,
        least_p=least,
        effect_size=shift / spread if spread > 1e-12 else math.nan,
        units=(sides[0].size, sides[1].size),
        error=error,
        freedom=freedom,
        blocks=blocks,
    )


def _blocked_p(blocks: Sequence[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Return the two-sided p-value of runs dealt out anew within each block, and the smallest that there could be.

    Exact where all ways to deal can be tried, else of RANDOM_SPLITS.
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


def _welch(before: Floats, after: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the shift of each row, its standard error and degrees of freedom."""
    errors = [side.var(axis=1, ddof=1) / side.shape[1] for side in (before, after)]
    total = errors[0] + errors[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [error**2 / (side.shape[1] - 1) for error, side in zip(errors, (before, after), strict=True)]
        freedom = np.nan_to_num(total**2 / (parts[0] + parts[1]), nan=1.0)
    return after.mean(axis=1) - before.mean(axis=1), np.sqrt(total), np.maximum(freedom, 1.0)


def t_quantile(freedom: float) -> float:
    """Return half the width of a 95 % interval in standard errors, by Student's t."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def least_p(before: int, after: int) -> float:
    """Return the smallest two-sided p-value that an exact permutation test of so many runs a side can have."""
    # Sides of one size can be exchanged: the mirrored split differs as much.
    return (2 if before == after else 1) / math.comb(before + after, before)
