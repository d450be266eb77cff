"""How sure one can be within one run, where the repetition varies: messages of one repetition are correlated.

Means have Student's t intervals over repetitions, on the scale of their logarithm. Quantiles have Woodruff's (1952):
the share of values below the quantile has an interval over repetitions, and the values at its two ends are those of the
quantile. Ends that lead into a long tail allow for the skewness of the repetitions (Hall 1992). bench/coverage.py
counts how often the intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from looplab.report.statistics import CONFIDENCE, FEWEST_REPETITIONS, Floats, Interval, t_quantile

_NORMAL = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


def cell_intervals(
    values: Floats, repetition: NDArray[np.integer], shares: Sequence[float]
) -> tuple[Interval, list[Interval]]:
    """Mean and quantiles of one cell's latencies, each with its interval; `repetition` says whose each value is.

    `shares` are 0.5 or more: a low quantile's upper end would ask for the skewness that a high one's lower end has.
    """
    order = np.sort(values)
    mean = float(order.mean())
    quantiles = [float(q) for q in np.quantile(order, shares)]
    present, codes = np.unique(repetition, return_inverse=True)
    count = present.size
    if count < FEWEST_REPETITIONS:
        nothing = [Interval(q, math.nan, math.nan) for q in quantiles]
        return Interval(mean, math.nan, math.nan), nothing
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    sums: Floats = np.bincount(codes, weights=values, minlength=count).astype(np.float64)
    intervals = []
    for share, quantile in zip(shares, quantiles, strict=True):
        below = np.bincount(codes[values <= quantile], minlength=count).astype(np.float64)
        intervals.append(_quantile_interval(order, quantile, share, _spread(below, sizes)))
    return _mean_interval(mean, _spread(sums, sizes)), intervals


@dataclass(frozen=True)
class _Spread:
    """Of the mean of all values, where whole repetitions are drawn: standard error, their skewness and number."""

    error: float
    skewness: float
    count: int

    def straightened(self, t: float, bend: float) -> float:
        """Return the quantile of the studentised mean of skewed repetitions that is `t` of normal ones.

        Hall's (1992) cubic, inverted; `bend` is a third of the skewness, and less where the mean's scale bends.
        """
        root = math.sqrt(self.count)
        straight = t / root - self.skewness / (6 * self.count)
        if abs(bend) < 1e-6:
            return root * straight
        return root / bend * (float(np.cbrt(1 + 3 * bend * straight)) - 1)


def _spread(sums: Floats, sizes: Floats) -> _Spread:
    """Return the spread of the mean of all values: a ratio of two sums over repetitions of `sizes` values."""
    count, total = sizes.size, sizes.sum()
    apart = sums - sums.sum() / total * sizes
    squares = float(np.sum(apart**2))
    skewness = count * math.sqrt(count - 1) / (count - 2) * float(np.sum(apart**3)) / squares**1.5 if squares else 0.0
    return _Spread(math.sqrt(count / (count - 1) * squares) / total, skewness, count)


def _quantile_interval(order: Floats, quantile: float, share: float, spread: _Spread) -> Interval:
    """Woodruff's: `spread` is that of the share of values up to the quantile; `order` holds all values, sorted.

    The share's interval is taken on the scale on which a binomial share has no skewness; its lower end, from p50 on, by
    the skewness of the repetitions. Messages are never taken for more than independent: chance alone may make a few
    repetitions agree.
    """
    error, t = spread.error, t_quantile(spread.count - 1)
    chance = math.sqrt(share * (1 - share) / order.size)
    if t * error < _NORMAL * chance:
        error, t = chance, _NORMAL
    shares, scale = _binomial_scale()
    middle = float(np.interp(share, shares, scale))
    half = t * error * (share * (1 - share)) ** -(1 / 3)
    lowest, highest = (float(np.interp(end, scale, shares)) for end in (middle - half, middle + half))
    if share > 0.5:
        lowest = share - error * spread.straightened(t, spread.skewness / 3)
    return Interval(quantile, min(_at(order, lowest), quantile), max(_at(order, highest), quantile))


def _at(order: Floats, share: float) -> float:
    """Return the value at a share of all that could be: 0 below the first that was seen, infinite beyond the last."""
    position = share * (order.size + 1) - 1
    if not 0 <= position <= order.size - 1:
        return 0.0 if position < 0 else math.inf
    first = math.floor(position)
    last = min(first + 1, order.size - 1)
    return float(order[first] + (position - first) * (order[last] - order[first]))


@cache
def _binomial_scale() -> tuple[Floats, Floats]:
    """Return shares, and where they are on the scale on which a binomial share has no skewness (Blom 1954)."""
    angle = np.linspace(0, math.pi / 2, 20_001)
    slope = np.cbrt(np.sin(angle) * np.cos(angle))
    return np.sin(angle) ** 2, np.concatenate([[0.0], np.cumsum(slope[1:] + slope[:-1])]) * angle[1]


def _mean_interval(mean: float, spread: _Spread) -> Interval:
    """A latency's interval is that of its logarithm: never below 0, longer towards the tail.

    The upper end is further where the repetitions are skewed: the largest of them is seldom among a few.
    """
    t = t_quantile(spread.count - 1)
    if mean <= 0:
        return Interval(mean, mean - t * spread.error, mean + t * spread.error)
    relative = spread.error / mean
    skewed = -spread.straightened(-t, spread.skewness / 3 - relative * math.sqrt(spread.count) / 2)
    return Interval(mean, mean / _factor(t * relative), mean * _factor(max(t, skewed) * relative))


def _factor(exponent: float) -> float:
    """e to the power of `exponent`; of a mean next to nothing it would be more than a float holds."""
    return math.exp(min(exponent, 700.0))
