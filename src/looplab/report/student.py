"""Student's t distribution and what a comparison can find; the standard library alone, as `./lab study` has it."""

import math
from functools import cache
from statistics import NormalDist

CONFIDENCE = 0.95
# A planned comparison finds a shift of `smallest_shift` in so many cases of 100.
POWER = 0.90
# Student's t is the normal distribution beyond so many degrees of freedom.
NORMAL_FREEDOM = 500


@cache
def t_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(t: float, freedom: int) -> float:
    """Return Student's distribution as a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4); normal beyond 500."""
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


def smallest_shift(before: int, after: int) -> float:
    """Return the shift that a comparison of so many runs a side finds in 90 of 100 cases, in SD of a run."""
    t = t_quantile(0.5 + CONFIDENCE / 2, before + after - 2)
    return (t + NormalDist().inv_cdf(POWER)) * math.sqrt(1 / before + 1 / after)


def least_p(before: int, after: int) -> float:
    """Return the smallest two-sided p-value that an exact permutation test of so many runs a side can have."""
    # Sides of one size can be exchanged: the mirrored split differs as much.
    return (2 if before == after else 1) / math.comb(before + after, before)
