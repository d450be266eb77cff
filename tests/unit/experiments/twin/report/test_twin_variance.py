"""Variances of few values against the published ones, and against draws."""

import numpy as np
import pytest

from looplab.experiments.twin.report.variance import compare, interval, over_runs, pooled


def test_the_interval_holds_the_truth_in_95_of_100_draws() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(30, 2, (2000, 5))
    held = [interval(float(np.var(one, ddof=1)), 4) for one in draws]
    assert np.mean([one.low <= 4 <= one.high for one in held]) == pytest.approx(0.95, abs=0.015)


def test_the_published_variances_of_five_values_decide_nothing() -> None:
    two, four = compare(14.36, 7.51, (4, 4)), compare(5.24, 0.61, (4, 4))
    assert two.value.low < 1 < two.value.high
    assert two.p_value == pytest.approx(0.545, abs=0.005)
    # Even nearly nine times the variance can be chance.
    assert four.value.low < 1 < four.value.high
    assert four.p_value == pytest.approx(0.061, abs=0.002)


def test_brokers_of_one_repetition_add_no_freedom() -> None:
    assert pooled([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]) == (2.5, 2)
    assert pooled([[1.0], [2.0]]) is None
    assert pooled([[1.0, 2.0], [2.0]]) is None
    assert pooled([]) is None


def test_ratios_of_several_runs_hold_the_truth() -> None:
    """Runs whose ratio varies more than its repetitions show: a factor of e in each direction."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(1000):
        own = np.exp(rng.normal(0, 1, 4))
        over = own * np.array([np.var(rng.normal(0, 1, 5), ddof=1) for _ in own])
        under = np.array([np.var(rng.normal(0, 1, 5), ddof=1) for _ in own])
        found = over_runs(over.tolist(), under.tolist())
        assert found is not None
        assert (found.p_value < 0.05) == (found.value.low > 1 or found.value.high < 1)
        held += found.value.low <= 1 <= found.value.high
    assert 0.93 <= held / 1000 <= 0.97
    assert over_runs([1.0, 2.0, 0.0], [1.0, 1.0, 1.0]) is None
