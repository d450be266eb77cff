"""The histogram of the devices: exact counts, three digits, and an answer that never came is infinite."""

import math
import random
from collections.abc import Iterable

import pytest

from looplab.system.histogram import Histogram, upper_ns


def of(values: Iterable[int]) -> Histogram:
    made = Histogram()
    for value in values:
        made.add(value)
    return made


def test_a_bucket_is_narrower_than_a_thousandth_of_its_values() -> None:
    rng = random.Random(1)
    for value in [0, 1, 2047, 2048, *(round(10 ** rng.uniform(0, 11)) for _ in range(5000))]:
        upper = upper_ns(value)
        assert value <= upper <= value * 1.001
        assert upper_ns(upper) == upper


def test_quantiles_are_those_of_the_values_to_three_digits() -> None:
    rng = random.Random(2)
    values = sorted(round(rng.lognormvariate(16, 1)) for _ in range(10_000))
    found = of(values)
    for share in (0.5, 0.95, 0.99, 0.999, 1.0):
        assert found.quantiles_ns([share])[0] == pytest.approx(values[math.ceil(share * 10_000) - 1], rel=0.001)
    summary = found.summary_us()
    assert summary["n"] == 10_000
    assert summary["avg"] == round(sum(values) / 10_000 / 1000, 3)
    assert (summary["min"], summary["max"]) == (values[0] / 1000, values[-1] / 1000)


def test_what_was_never_answered_is_infinite() -> None:
    found = of([1_000_000] * 98)
    summary = found.summary_us(endless=2)
    assert summary["n"] == 100
    assert summary["p95"] == 1000
    assert [summary[name] for name in ("p99", "max", "avg")] == [None, None, None]
    assert set(Histogram().summary_us(3).values()) == {3, None}
