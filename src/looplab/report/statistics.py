"""How sure one can be: what varies is the repetition, because messages of one repetition are correlated.

Means have Student's t intervals over repetitions, on the scale of their logarithm. Quantiles have Woodruff's (1952):
the share of values below the quantile has an interval over repetitions, and the values at its two ends are those of
the quantile. Of nine ways that bench/coverage.py tries, these keep nearest to 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 2000
# Fewer repetitions than this give no interval: their spread would be a guess.
FEWEST_REPETITIONS = 3
# Student's t is the normal distribution beyond so many degrees of freedom.
NORMAL_FREEDOM = 500


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval.

    NaN bounds where the repetitions are too few to say; `high` is infinite where the interval ends beyond the
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


@dataclass(frozen=True)
class Comparison:
    """`after` against `before`, paired cell by cell: the difference, its share of `before`, and a test."""

    before: float
    after: float
    difference: Interval
    share: Interval
    p_value: float
    effect_size: float
    repetitions: int


def cell_intervals(
    values: Floats, repetition: NDArray[np.integer], shares: Sequence[float]
) -> tuple[Interval, list[Interval]]:
    """Mean and quantiles of one cell's latencies, each with its interval; `repetition` says whose each value is."""
    order = np.sort(values)
    mean = float(order.mean())
    quantiles = [float(q) for q in np.quantile(order, shares)]
    codes, count = _codes(repetition)
    if count < FEWEST_REPETITIONS:
        nothing = [Interval(q, math.nan, math.nan) for q in quantiles]
        return Interval(mean, math.nan, math.nan), nothing
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    sums: Floats = np.bincount(codes, weights=values, minlength=count).astype(np.float64)
    found = []
    for share, quantile in zip(shares, quantiles, strict=True):
        below = np.bincount(codes[values <= quantile], minlength=count).astype(np.float64)
        found.append(_quantile_interval(order, quantile, share, below, sizes))
    return _on_log_scale(mean, _standard_error(sums, sizes), count - 1), found


def compare(
    before: Sequence[Floats], after: Sequence[Floats], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Comparison | None:
    """Cells of two treatments, each an array of one figure a repetition; None where a side has too few.

    The difference is that of the cells' means, averaged over the cells. Its interval is Welch's, its p-value that
    of a permutation test that shuffles whole repetitions, and only within their cell.
    """
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(min(a.size, b.size) < FEWEST_REPETITIONS for a, b in pairs):
        return None
    first = float(np.mean([a.mean() for a, _ in pairs]))
    second = float(np.mean([b.mean() for _, b in pairs]))
    errors = [_squared_errors([pair[side] for pair in pairs]) for side in (0, 1)]
    freedom = [x.size - 1 for side in (0, 1) for x in (pair[side] for pair in pairs)]
    t = _t_of_sum([*errors[0], *errors[1]], freedom)
    half = t * math.sqrt(sum(map(sum, errors)))
    spread = math.sqrt(float(np.mean([x.var(ddof=1) for pair in pairs for x in pair])))
    return Comparison(
        before=first,
        after=second,
        difference=Interval(second - first, second - first - half, second - first + half),
        share=_share(first, second, errors, freedom),
        p_value=_permutation_p(pairs, resamples, rng),
        effect_size=(second - first) / spread if spread else math.nan,
        repetitions=sum(min(a.size, b.size) for a, b in pairs),
    )


def smallest_found(repetitions: int, cells: int) -> float:
    """The shift, in standard deviations of a repetition, that `compare` finds in about 90 % of all cases."""
    freedom = 2 * (repetitions - cells)
    return (t_quantile(0.5 + CONFIDENCE / 2, freedom) + 1.2816) * math.sqrt(2 / repetitions)


def t_quantile(share: float, freedom: int) -> float:
    """Student's t by bisection."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(t: float, freedom: int) -> float:
    """Student's distribution as a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4); normal beyond 500."""
    if freedom > NORMAL_FREEDOM:
        return NormalDist().cdf(t)
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = 1.0, 0.0
    first = 2 if freedom % 2 else 1
    for n in range(first, freedom, 2):
        total += term
        term *= cosine * cosine * n / (n + 1)
    inside = 2 / math.pi * (angle + sine * cosine * total) if freedom % 2 else sine * total
    return 0.5 + inside / 2


def _codes(repetition: NDArray[np.integer]) -> tuple[NDArray[np.int64], int]:
    """Repetitions as 0, 1, 2, ... whichever of them answered, and how many there are."""
    offsets = repetition - repetition.min()
    present = np.bincount(offsets) > 0
    codes = (np.cumsum(present) - 1)[offsets]
    return np.asarray(codes, dtype=np.int64), int(present.sum())


def _standard_error(sums: Floats, sizes: Floats) -> float:
    """Of the mean of all values, where whole repetitions of `sizes` values were drawn (a ratio of two sums)."""
    count, total = sizes.size, sizes.sum()
    apart = sums - sums.sum() / total * sizes
    return float(math.sqrt(count / (count - 1) * np.sum(apart**2)) / total)


def _quantile_interval(order: Floats, quantile: float, share: float, below: Floats, sizes: Floats) -> Interval:
    """Woodruff's: `below` counts each repetition's values up to the quantile; `order` holds all of them, sorted.

    The share's interval is taken on the scale of arcsin(sqrt(share)), on which its spread does not depend on it.
    Messages are never taken for more than independent: chance alone may make a few repetitions agree.
    """
    spread = share * (1 - share)
    variance = max(_standard_error(below, sizes) ** 2, spread / order.size)
    half = t_quantile(0.5 + CONFIDENCE / 2, sizes.size - 1) * math.sqrt(variance / spread) / 2
    angle = math.asin(math.sqrt(share))
    lowest = math.sin(max(angle - half, 0.0)) ** 2
    highest = math.sin(min(angle + half, math.pi / 2)) ** 2
    # Rounded outwards, to values that were seen; beyond the last of them nothing is known, below the first is 0.
    first, last = math.floor(lowest * order.size) - 1, math.ceil(highest * order.size)
    low = float(order[first]) if first >= 0 else 0.0
    high = float(order[last]) if last < order.size else math.inf
    return Interval(quantile, min(low, quantile), max(high, quantile))


def _on_log_scale(estimate: float, standard_error: float, freedom: int) -> Interval:
    """A latency's interval is that of its logarithm: never below 0, longer towards the tail."""
    t = t_quantile(0.5 + CONFIDENCE / 2, freedom)
    if estimate <= 0:
        return Interval(estimate, estimate - t * standard_error, estimate + t * standard_error)
    factor = _factor(t * standard_error / estimate)
    return Interval(estimate, estimate / factor, estimate * factor)


def _factor(exponent: float) -> float:
    """e to the power of `exponent`; of a mean next to nothing it would be more than a float holds."""
    return math.exp(min(exponent, 700.0))


def _squared_errors(cells: Sequence[Floats]) -> list[float]:
    """What each cell adds to the squared standard error of their average."""
    return [float(x.var(ddof=1)) / x.size / len(cells) ** 2 for x in cells]


def _t_of_sum(squares: Sequence[float], freedom: Sequence[int]) -> float:
    """Student's t for a sum of parts with spreads of their own (Welch and Satterthwaite's degrees of freedom)."""
    total = sum(squares)
    if total <= 0:
        return 0.0
    joint = total**2 / sum(square**2 / n for square, n in zip(squares, freedom, strict=True))
    return t_quantile(0.5 + CONFIDENCE / 2, math.floor(joint))


def _share(first: float, second: float, errors: Sequence[Sequence[float]], freedom: Sequence[int]) -> Interval:
    """second / first - 1, its interval on the scale of the logarithm: both sides' uncertainty belongs to it."""
    share = second / first - 1
    if min(first, second) <= 0:
        return Interval(share, math.nan, math.nan)
    squares = [e / first**2 for e in errors[0]] + [e / second**2 for e in errors[1]]
    factor = _factor(_t_of_sum(squares, freedom) * math.sqrt(sum(squares)))
    return Interval(share, (1 + share) / factor - 1, (1 + share) * factor - 1)


def _permutation_p(pairs: list[tuple[Floats, Floats]], resamples: int, rng: np.random.Generator) -> float:
    """Two-sided; the statistic is studentised, so that unequal spreads do not pass for a shift."""
    seen = _studentised(
        [a.mean() for a, _ in pairs],
        [b.mean() for _, b in pairs],
        [a.var(ddof=1) / a.size + b.var(ddof=1) / b.size for a, b in pairs],
    )
    if not math.isfinite(float(seen)):
        return 1.0
    firsts, seconds, errors = [], [], []
    for a, b in pairs:
        both = np.concatenate([a, b])
        shuffled = rng.permuted(np.broadcast_to(both, (resamples, both.size)), axis=1)
        x, y = shuffled[:, : a.size], shuffled[:, a.size :]
        firsts.append(x.mean(axis=1))
        seconds.append(y.mean(axis=1))
        errors.append(x.var(axis=1, ddof=1) / a.size + y.var(axis=1, ddof=1) / b.size)
    drawn = _studentised(firsts, seconds, errors)
    return float((1 + np.sum(np.abs(drawn) >= abs(seen) * (1 - 1e-12))) / (1 + resamples))


def _studentised(first: Sequence[object], second: Sequence[object], error: Sequence[object]) -> Floats:
    shift = np.sum(np.asarray(second) - np.asarray(first), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(shift / np.sqrt(np.sum(np.asarray(error), axis=0)), dtype=np.float64)
