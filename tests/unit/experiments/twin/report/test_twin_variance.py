"""Variances of few values against the published ones, and against draws."""

import numpy as np
import pytest

from looplab.experiments.twin.report.brokers import interval, pooled, ratio


def test_the_interval_holds_the_truth_in_95_of_100_draws() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(30, 2, (2000, 5))
    held = [interval(float(np.var(one, ddof=1)), 4) for one in draws]
    assert np.mean([one.low <= 4 <= one.high for one in held]) == pytest.approx(0.95, abs=0.015)


def test_the_published_variances_of_five_values_decide_nothing() -> None:
    (two, p_of_two), (four, p_of_four) = ratio(14.36, 7.51, (4, 4)), ratio(5.24, 0.61, (4, 4))
    assert two.low < 1 < two.high
    assert p_of_two == pytest.approx(0.545, abs=0.005)
    # Even nearly nine times the variance can be chance.
    assert four.low < 1 < four.high
    assert p_of_four == pytest.approx(0.061, abs=0.002)


def test_brokers_of_one_repetition_add_no_freedom() -> None:
    assert pooled([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]) == (2.5, 2)
    assert pooled([[1.0], [2.0]]) is None
    assert pooled([[1.0, 2.0], [2.0]]) is None
    assert pooled([]) is None
