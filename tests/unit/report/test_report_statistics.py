"""Statistics against known truth: what is there is found, what is not is not."""

import math

import numpy as np
import pytest
from support.latency_models import MODELS, truth

from looplab.report.statistics import Comparison, cell_intervals, compare, smallest_found, t_cdf, t_quantile

CELLS, REPETITIONS = 3, 10


def decided(c: Comparison | None) -> bool:
    """What a verdict asks for: interval and permutation test agree."""
    assert c is not None
    return c.p_value < 0.05 and (c.difference.low > 0 or c.difference.high < 0)


def repetition_means(rng: np.random.Generator, shift_sd: float = 0.0) -> list[np.ndarray]:
    """Mean latency of each repetition of three cells: skewed, correlated messages, repetitions that differ.

    `shift_sd` moves them by so many standard deviations of a repetition's mean.
    """
    messages = 50
    own = rng.normal(0, 0.1, (CELLS, REPETITIONS, 1))
    noise = rng.normal(0, 0.3, (CELLS, REPETITIONS, messages))
    noise[..., 1:] = 0.6 * noise[..., :-1] + 0.8 * noise[..., 1:]
    means = (1000 * np.exp(own + noise)).mean(axis=2)
    return list(means + shift_sd * means.std(axis=1, ddof=1).mean())


def test_of_1000_null_comparisons_at_most_7_percent_are_called_different() -> None:
    rng = np.random.default_rng(11)
    called = [decided(compare(repetition_means(rng), repetition_means(rng), rng, 1000)) for _ in range(1000)]
    assert sum(called) <= 70
    # A test that never calls anything different would pass the line above.
    assert sum(called) >= 15


def test_a_shift_of_one_standard_deviation_is_found_in_at_least_90_percent() -> None:
    rng = np.random.default_rng(12)
    found = [decided(compare(repetition_means(rng), repetition_means(rng, 1.0), rng, 1000)) for _ in range(300)]
    assert sum(found) >= 270


def test_unequal_spreads_do_not_pass_for_a_shift() -> None:
    rng = np.random.default_rng(13)
    calm = [[rng.normal(1000, 5, 10) for _ in range(3)] for _ in range(300)]
    wild = [[rng.normal(1000, 100, 10) for _ in range(3)] for _ in range(300)]
    called = [decided(compare(a, b, rng, 1000)) for a, b in zip(calm, wild, strict=True)]
    assert sum(called) <= 30


def test_the_direction_and_size_of_a_shift() -> None:
    rng = np.random.default_rng(14)
    before = [rng.normal(1000, 10, 10) for _ in range(4)]
    c = compare(before, [cell * 1.2 for cell in before], rng)
    assert c is not None
    assert c.share.estimate == pytest.approx(0.2, abs=1e-9)
    assert 0.15 < c.share.low < 0.2 < c.share.high < 0.25
    assert c.p_value < 0.01
    back = compare([cell * 1.2 for cell in before], before, rng)
    assert back is not None
    assert back.difference.estimate == pytest.approx(-c.difference.estimate)


SHARES = [0.5, 0.95, 0.99]


def bounds_of(values: np.ndarray) -> np.ndarray:
    """Low and high end for mean, p50, p95 and p99 of one row a repetition."""
    mean, quantiles = cell_intervals(values.ravel(), np.repeat(np.arange(len(values)), values.shape[1]), SHARES)
    return np.array([(i.low, i.high) for i in (mean, *quantiles)])


def covered(repetitions: int, messages: int, times: int) -> np.ndarray:
    """How often intervals hold the truth, one row a model: mean, p50, p95, p99 (at length: bench/coverage.py)."""
    rng = np.random.default_rng(15)
    rows = []
    for model in MODELS.values():
        true = truth(model, SHARES)
        ends = np.array([bounds_of(model(rng, repetitions, messages)) for _ in range(times)])
        rows.append(((ends[..., 0] <= true) & (true <= ends[..., 1])).mean(axis=0))
    return np.array(rows)


def test_intervals_hold_the_truth_as_often_as_they_say_at_the_published_size() -> None:
    """For every figure, over models that no interval is made for; 200 tries each have a standard error of 1.6 %."""
    held = covered(10, 100, 200)
    overall = held.mean(axis=0)
    assert (overall >= [0.91, 0.93, 0.92, 0.93]).all(), overall
    assert (overall <= 0.985).all(), overall
    # The mean of a Pareto tail is what no sample shows; a tail that each repetition has for itself is next to it.
    assert (held >= [0.82, 0.91, 0.87, 0.86]).all(), held


def test_three_repetitions_have_wide_intervals_and_not_wrong_ones() -> None:
    overall = covered(3, 100, 150).mean(axis=0)
    assert (overall >= [0.90, 0.95, 0.95, 0.97]).all(), overall


def test_an_interval_that_the_messages_cannot_close_is_open() -> None:
    """Of 250 independent messages the largest lies below p99 one time in twelve: no upper end can be told."""
    rng = np.random.default_rng(22)
    few, many = MODELS["calm"](rng, 10, 25), MODELS["calm"](rng, 30, 100)
    assert np.isinf(bounds_of(few)[3, 1])
    assert np.isfinite(bounds_of(few)[:3]).all()
    assert np.isfinite(bounds_of(many)).all()


def test_messages_of_one_repetition_are_not_taken_for_independent() -> None:
    """Ten repetitions that each have a level of their own: the interval is that of ten values, not of a thousand."""
    rng = np.random.default_rng(16)
    levels = rng.normal(1000, 100, 10)
    values = np.repeat(levels, 100) + rng.normal(0, 1, 1000)
    mean, _ = cell_intervals(values, np.repeat(np.arange(10), 100), [0.5])
    half = (mean.high - mean.low) / 2
    student = t_quantile(0.975, 9) * levels.std(ddof=1) / math.sqrt(10)
    assert half == pytest.approx(student, rel=0.25)


def test_large_cells_give_what_theory_says() -> None:
    rng = np.random.default_rng(17)
    values = rng.lognormal(7, 0.5, 40_000)
    repetition = np.repeat(np.arange(400), 100)
    mean, (p50, p99) = cell_intervals(values, repetition, [0.5, 0.99])
    assert (p50.estimate, p99.estimate) == tuple(np.quantile(values, [0.5, 0.99]))
    for interval in (mean, p50, p99):
        assert interval.low < interval.estimate < interval.high
    # The asymptotic standard error of a quantile: sqrt(q (1 - q) / n) / density.
    density = math.exp(-((math.log(p99.estimate) - 7) ** 2) / 0.5) / (p99.estimate * 0.5 * math.sqrt(2 * math.pi))
    half = 1.97 * math.sqrt(0.99 * 0.01 / 40_000) / density
    assert (p99.high - p99.low) / 2 == pytest.approx(half, rel=0.35)


def test_intervals_of_latencies_stay_above_nought() -> None:
    """Three repetitions of which one is far away: t is 4.3, and a latency below 0 there is none."""
    mean, (p50,) = cell_intervals(np.array([1.0] * 20 + [50.0] * 10), np.repeat(np.arange(3), 10), [0.5])
    assert 0 < mean.low < mean.estimate < mean.high
    assert p50.low >= 0
    c = compare([np.array([1.0, 1.0, 50.0])], [np.array([1.0, 1.0, 40.0])], np.random.default_rng(1))
    assert c is not None
    assert -1 < c.share.low < c.share.estimate < c.share.high


@pytest.mark.parametrize("repetitions", [1, 2])
def test_too_few_repetitions_have_no_interval(repetitions: int) -> None:
    rng = np.random.default_rng(18)
    mean, (p50,) = cell_intervals(rng.normal(5, 1, 20), np.repeat(np.arange(repetitions), 20 // repetitions), [0.5])
    assert not mean.known
    assert not p50.known
    assert mean.estimate == pytest.approx(5, abs=1)
    assert compare([np.ones(repetitions)], [np.ones(10)], rng) is None


def test_repetitions_without_an_answer_do_not_count() -> None:
    rng = np.random.default_rng(19)
    values = rng.normal(5, 1, 30)
    gaps, _ = cell_intervals(values, np.repeat([0, 4, 9], 10), [0.5])
    none, _ = cell_intervals(values, np.repeat([0, 1, 2], 10), [0.5])
    assert gaps == none


def test_constant_values_give_a_point_and_no_warning() -> None:
    rng = np.random.default_rng(20)
    same = [np.full(10, 7.0)]
    c = compare(same, same, rng)
    assert c is not None
    assert (c.difference.low, c.difference.high, c.p_value) == (0, 0, 1)
    assert (c.share.low, c.share.high) == (0, 0)
    mean, (p50, p99) = cell_intervals(np.full(1000, 7.0), np.repeat(np.arange(10), 100), [0.5, 0.99])
    for interval in (mean, p50, p99):
        assert (interval.low, interval.estimate, interval.high) == (7, 7, 7)


def test_students_t_is_that_of_the_tables() -> None:
    table = {1: 12.7062, 2: 4.3027, 5: 2.5706, 9: 2.2622, 30: 2.0423, 120: 1.9799}
    for freedom, value in table.items():
        assert t_quantile(0.975, freedom) == pytest.approx(value, abs=1e-4)
    assert t_cdf(1.96, 10_000) == pytest.approx(0.975, abs=1e-4)


def test_the_smallest_shift_is_what_simulation_finds() -> None:
    rng = np.random.default_rng(21)
    shift = smallest_found(CELLS * REPETITIONS, CELLS)
    found = 0
    for _ in range(300):
        before = [rng.normal(0, 1, REPETITIONS) for _ in range(CELLS)]
        found += decided(compare(before, [rng.normal(shift, 1, REPETITIONS) for _ in range(CELLS)], rng, 1000))
    assert 0.82 <= found / 300 <= 0.97
