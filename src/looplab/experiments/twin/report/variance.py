"""How sure a variance of few values is: intervals by chi-square, two variances compared by F. Values are normal.

Of three runs or more, variances are compared run by run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from looplab.report import statistics
from looplab.report.statistics import Floats, Interval
from looplab.report.student import CONFIDENCE, t_cdf

_STEPS = 20_001
_TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class Ratio:
    """One variance over another, its interval, and the two-sided p-value of their being equal."""

    value: Interval
    p_value: float


def pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """Return the mean variance of groups of one size, and the degrees of freedom of one of them.

    The groups are brokers that worked at the same time: not independent, so they add no degrees of freedom. None for
    fewer than two values in a group.
    """
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or min(sizes) < 2:
        return None
    return float(np.mean([np.var(group, ddof=1) for group in groups])), sizes.pop() - 1


def interval(variance: float, freedom: int) -> Interval:
    """Return the variance with its 95 % interval."""
    low, high = (variance * freedom / chi_square_quantile(share, freedom) for share in (1 - _TAIL, _TAIL))
    return Interval(variance, low, high)


def compare(over: float, under: float, freedom: tuple[int, int]) -> Ratio:
    """Return `over` divided by `under`, variances of so many degrees of freedom."""
    ratio = over / under
    low, high = (ratio / f_quantile(share, freedom) for share in (1 - _TAIL, _TAIL))
    below = f_share(ratio, freedom)
    return Ratio(Interval(ratio, low, high), 2 * min(below, 1 - below))


def over_runs(over: Sequence[float], under: Sequence[float]) -> Ratio | None:
    """Return the geometric mean of `over` divided by `under`, a pair of variances a run, by Student's t over runs.

    None if a run has a variance of 0.
    """
    if min(*over, *under) <= 0:
        return None
    ratios = np.array(over) / np.array(under)
    logs = np.log(ratios)
    error = float(logs.std(ddof=1)) / math.sqrt(logs.size)
    p_value = 2 - 2 * t_cdf(abs(float(logs.mean())) / error, logs.size - 1) if error else 0.0
    return Ratio(statistics.over_runs(ratios.tolist()) or statistics.UNKNOWN, p_value)


@cache
def chi_square_quantile(share: float, freedom: int) -> float:
    """Return the quantile of chi-square; integrated over its root, where the density is smooth."""
    root = np.linspace(1e-9, math.sqrt(freedom) + 12, _STEPS, dtype=np.float64)
    below = _cumulative(root, (freedom - 1) * np.log(root) - root**2 / 2)
    return float(np.interp(share, below, root)) ** 2


def f_quantile(share: float, freedom: tuple[int, int]) -> float:
    angle, below = _f(freedom)
    return float(np.tan(np.interp(share, below, angle))) ** 2 * freedom[1] / freedom[0]


def f_share(value: float, freedom: tuple[int, int]) -> float:
    """Return the share of F at or below a value."""
    angle, below = _f(freedom)
    return float(np.interp(math.atan(math.sqrt(value * freedom[0] / freedom[1])), angle, below))


@cache
def _f(freedom: tuple[int, int]) -> tuple[Floats, Floats]:
    """F is d2/d1 tan^2 of an angle with the density sin^(d1-1) cos^(d2-1)."""
    angle = np.linspace(1e-9, math.pi / 2 - 1e-9, _STEPS, dtype=np.float64)
    logarithm = (freedom[0] - 1) * np.log(np.sin(angle)) + (freedom[1] - 1) * np.log(np.cos(angle))
    return angle, _cumulative(angle, logarithm)


def _cumulative(at: Floats, log_density: Floats) -> Floats:
    density = np.exp(log_density - log_density.max())
    summed = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(at))])
    shares: Floats = summed / summed[-1]
    return shares
