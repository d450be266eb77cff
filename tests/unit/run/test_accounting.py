"""Figures: quantiles as numpy's, an outlier kept, nothing made of nothing."""

import random

import numpy as np
import pytest

from looplab.run.accounting import quantile, summarise


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99, 100, 1000, 1001])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.95, 0.99, 0.999, 1])
def test_quantile_is_numpys(size: int, share: float) -> None:
    dice = random.Random(size)
    values = sorted(int(dice.lognormvariate(14, 1.5)) for _ in range(size))
    assert quantile(values, share) == pytest.approx(np.quantile(values, share), rel=1e-12)


def test_quantile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_summary_is_in_microseconds_and_keeps_the_outlier() -> None:
    values = [1000 * n for n in range(1, 1000)] + [3_600_000_000_000]
    found = summarise(values)
    assert (found["n"], found["min"], found["max"]) == (1000, 1, 3_600_000_000)
    assert found["avg"] == round(sum(values) / 1000 / 1000, 3)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        assert found[name] == pytest.approx(np.quantile(values, share) / 1000, abs=0.0006)


def test_summary_of_nothing_is_null_not_zero() -> None:
    found = summarise([])
    assert found.pop("n") == 0
    assert set(found.values()) == {None}
