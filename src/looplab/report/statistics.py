"""How sure one can be: everything is resampled by repetition, because messages of one repetition are correlated.

Intervals are expanded percentile bootstrap intervals (Hesterberg 2015): with few repetitions plain percentiles
are too narrow, so the tails are moved out to where Student's t and the factor sqrt(n / (n - 1)) put them.
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
# Fewer repetitions than this give no interval: there is nothing to resample.
FEWEST_REPETITIONS = 3
# Where a cell holds more values than this, its distribution is taken at this many ranks.
GRID_POINTS = 2048
FEWEST_RESAMPLES = 400
_WEIGHTS = 2**22


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval; NaN bounds where the repetitions are too few to say."""

    estimate: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        return not math.isnan(self.low)


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
    values: Floats, repetition: NDArray[np.integer], shares: Sequence[float], rng: np.random.Generator
) -> tuple[Interval, list[Interval]]:
    """Mean and quantiles of one cell's values, each with its interval; `repetition` says whose each value is."""
    order = np.sort(values)
    mean = float(order.mean())
    quantiles = [float(q) for q in np.quantile(order, shares)]
    codes, count = _codes(repetition)
    if count < FEWEST_REPETITIONS:
        nothing = [Interval(q, math.nan, math.nan) for q in quantiles]
        return Interval(mean, math.nan, math.nan), nothing
    weights = resample(count, rng)
    tail = tail_share(count - 1, math.sqrt(count / (count - 1)))
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    sums = np.bincount(codes, weights=values, minlength=count)
    means = (weights @ sums) / (weights @ sizes)
    grid = _grid(order, shares)
    slots = codes * grid.size
    slots += np.searchsorted(grid, values)
    held = np.bincount(slots, minlength=count * grid.size).reshape(count, grid.size)
    cumulated = np.cumsum(held, axis=1, dtype=np.int32)
    drawn = [_drawn_quantile(weights, cumulated, grid, share) for share in shares]
    return (
        _bounds(mean, means, tail),
        [_bounds(q, d, tail) for q, d in zip(quantiles, drawn, strict=True)],
    )


def compare(
    before: Sequence[Floats], after: Sequence[Floats], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Comparison | None:
    """Cells of two treatments, each an array of one figure a repetition; None where a side has too few.

    The difference is that of the cells' means, averaged over the cells. Its interval is the bootstrap's, its
    p-value that of a permutation test: both shuffle whole repetitions, and only within their cell.
    """
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(min(a.size, b.size) < FEWEST_REPETITIONS for a, b in pairs):
        return None
    first = float(np.mean([a.mean() for a, _ in pairs]))
    second = float(np.mean([b.mean() for _, b in pairs]))
    drawn_before = np.mean([_drawn_means(a, resamples, rng) for a, _ in pairs], axis=0)
    drawn_after = np.mean([_drawn_means(b, resamples, rng) for _, b in pairs], axis=0)
    sizes = [x.size for pair in pairs for x in pair]
    freedom = sum(sizes) - len(sizes)
    tail = tail_share(freedom, math.sqrt(float(np.mean([n / (n - 1) for n in sizes]))))
    spread = math.sqrt(float(np.mean([x.var(ddof=1) for pair in pairs for x in pair])))
    return Comparison(
        before=first,
        after=second,
        difference=_bounds(second - first, drawn_after - drawn_before, tail),
        # Of each resample's own `before`: its uncertainty belongs to that of the share.
        share=_bounds(second / first - 1, drawn_after / drawn_before - 1, tail),
        p_value=_permutation_p(pairs, resamples, rng),
        effect_size=(second - first) / spread if spread else math.nan,
        repetitions=sum(min(a.size, b.size) for a, b in pairs),
    )


def smallest_found(repetitions: int, cells: int) -> float:
    """The shift, in standard deviations of a repetition, that `compare` finds in about 90 % of all cases."""
    freedom = 2 * (repetitions - cells)
    return (t_quantile(0.5 + CONFIDENCE / 2, freedom) + 1.2816) * math.sqrt(2 / repetitions)


def resample(count: int, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """How often each of `count` repetitions is drawn, one row a resample; fewer rows where there are very many."""
    rows = max(FEWEST_RESAMPLES, min(resamples, _WEIGHTS // count))
    return rng.multinomial(count, np.full(count, 1 / count), size=rows).astype(np.float64)


def tail_share(freedom: int, widening: float) -> float:
    """Which percentile of the bootstrap stands for 2.5 %, so that n - 1 degrees of freedom are paid for."""
    return NormalDist().cdf(-widening * t_quantile(0.5 + CONFIDENCE / 2, freedom))


def t_quantile(share: float, freedom: int) -> float:
    """Student's t by bisection."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(t: float, freedom: int) -> float:
    """Student's distribution as a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4); normal beyond 500."""
    if freedom > 500:
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


def _grid(order: Floats, shares: Sequence[float]) -> Floats:
    """Values at which the distribution is held: all, or evenly spaced ranks and, near each share, ever closer ones."""
    if order.size <= GRID_POINTS:
        return order
    last = order.size - 1
    steps = np.concatenate([[0], np.geomspace(1, last, 200)]).astype(np.int64)
    ranks = [np.linspace(0, last, GRID_POINTS // 2).astype(np.int64)]
    for share in shares:
        centre = round(share * last)
        ranks += [centre - steps, centre + steps]
    return order[np.unique(np.clip(np.concatenate(ranks), 0, last))]


def _drawn_quantile(weights: Floats, cumulated: NDArray[np.int32], grid: Floats, share: float) -> Floats:
    """One quantile of every resample: the first grid value that holds the share, found by bisection in all rows."""
    wanted = share * (weights @ cumulated[:, -1])
    low = np.zeros(weights.shape[0], dtype=np.int64)
    high = np.full(weights.shape[0], grid.size - 1)
    while (low < high).any():
        middle = (low + high) // 2
        enough = np.einsum("br,rb->b", weights, cumulated[:, middle]) >= wanted
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    return grid[np.minimum(low, grid.size - 1)]


def _drawn_means(figures: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    drawn: Floats = figures[rng.integers(0, figures.size, (resamples, figures.size))].mean(axis=1)
    return drawn


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


def _bounds(estimate: float, drawn: Floats, tail: float) -> Interval:
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))
