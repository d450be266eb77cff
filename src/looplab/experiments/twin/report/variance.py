"""How sure a variance of few values is: intervals by chi-square, two variances compared by F. Values are normal.

Of three runs or more, variances are compared run by run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtr, fdtri, stdtr

from looplab.report import statistics
from looplab.report.statistics import CONFIDENCE, Interval

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
    # chdtri takes the share above.
    low, high = (float(variance * freedom / chdtri(freedom, above)) for above in (_TAIL, 1 - _TAIL))
    return Interval(variance, low, high)


def compare(over: float, under: float, freedom: tuple[int, int]) -> Ratio:
    """Return `over` divided by `under`, variances of so many degrees of freedom."""
    ratio = over / under
    low, high = (float(ratio / fdtri(*freedom, share)) for share in (1 - _TAIL, _TAIL))
    below = float(fdtr(*freedom, ratio))
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
    p_value = 2 * float(stdtr(logs.size - 1, -abs(float(logs.mean())) / error)) if error else 0.0
    return Ratio(statistics.over_runs(ratios.tolist()) or statistics.UNKNOWN, p_value)
