"""Figures: quantiles as numpy's, an outlier kept, nothing made of nothing; the histogram's to three digits."""

import math
import random

import numpy as np
import pytest

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.document import COLUMNS
from looplab.run.accounting import QUANTILES, answers_held_us, held_us, response, summarise
from looplab.run.document import cell_document
from looplab.run.samples import ANSWERED, FAILED, LATE, WAITING, SampleStore
from looplab.system.histogram import Histogram


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99, 100, 1000, 1001])
def test_a_summary_is_numpys_in_microseconds_and_keeps_the_outlier(size: int) -> None:
    dice = random.Random(size)
    values = [*(int(dice.lognormvariate(14, 1.5)) for _ in range(size - 1)), 3_600_000_000_000]
    found = summarise(values)
    assert (found["n"], found["max"]) == (size, 3_600_000_000)
    wanted = {"min": min(values), "avg": np.mean(values)}
    wanted |= {name: np.quantile(values, share) for name, share in QUANTILES.items()}
    assert {name: found[name] for name in wanted} == {
        name: pytest.approx(value / 1000, rel=1e-12, abs=0.0006) for name, value in wanted.items()
    }


@pytest.mark.parametrize(("endless", "known"), [(0, 4), (1, 2), (4, 2), (5, 1), (49, 1), (50, 0), (100, 0)])
def test_an_endless_value_makes_the_quantiles_that_reach_it_null(endless: int, known: int) -> None:
    """Of 100 values; p50 lies between the 50th and the 51st."""
    found = summarise([*(1000 * n for n in range(1, 101 - endless)), *[np.inf] * endless])
    assert found["n"] == 100
    finite = [name for name in ("p50", "p95", "p99", "p999") if found[name] is not None]
    assert finite == ["p50", "p95", "p99", "p999"][:known]
    assert (found["max"] is None) == (found["avg"] is None) == (endless > 0)
    assert (found["min"] is None) == (endless == 100)


def test_response_counts_from_due_and_takes_in_the_lost() -> None:
    """Of messages 20 ms apart: in time, late by its sender, late, lost, answered with an error."""
    store = SampleStore(5, more=COLUMNS)
    rows = [(ANSWERED, 0, 9), (ANSWERED, 15, 6), (LATE, 0, 1500), (WAITING, 0, 0), (FAILED, 0, 5)]
    for row, (state, lateness_ms, total_ms) in enumerate(rows):
        due = 20_000_000 * row
        store["due_ns"][row], store["state"][row] = due, state
        store["sent_ns"][row] = due + 1_000_000 * lateness_ms
        if state != WAITING:
            store["received_ns"][row] = due + 1_000_000 * (lateness_ms + total_ms)
    found = response(store, range(5))
    assert [found[name] for name in ("n", "min", "p50", "max")] == [5, 9000, 1_500_000, None]
    cells = [cell_document(LoopCell.keyed(20, 0), store, range(sent), {}) for sent in (5, 0)]
    assert [cell["beyond_interval"] for cell in cells] == [0.8, None]


@pytest.mark.parametrize("sleeps", [True, False])
def test_what_a_sender_held_back_counts_once(sleeps: bool) -> None:
    """Ten messages 20 ms apart, two stalls of 90 and 50 ms, and a wake-up of 0.2 ms before each message."""
    store = SampleStore(10)
    stalls_ms, left = {3: 90.0, 8: 50.0}, 0.0
    for row in range(10):
        due = left + 20 if sleeps else 20.0 * (row + 1)
        left = max(due, left) + 0.2 + stalls_ms.get(row, 0.0)
        store["due_ns"][row], store["sent_ns"][row] = round(due * 1e6), round(left * 1e6)
    assert held_us(store, range(10)) == pytest.approx(140_400)
    assert held_us(store, range(3)) == 0
    assert held_us(store, []) == 0


def test_answers_held_back_by_one_stall_count_once() -> None:
    """Sent each 10 ms and answered within 2 ms, but 40 ms during which all wait; then two catch up in a bunch."""
    sent = [0, 10, 20, 30, 40, 50]
    came = [2, 12, 62, 62, 63, 63]
    columns = {name: [at * 1_000_000 for at in times] for name, times in (("sent_ns", sent), ("received_ns", came))}
    assert answers_held_us(columns, range(6), 2_000_000) == pytest.approx(41_000)


def test_quantiles_are_those_of_the_values_to_three_digits() -> None:
    rng = random.Random(2)
    values = sorted(round(rng.lognormvariate(16, 1)) for _ in range(10_000))
    found = Histogram()
    for value in values:
        found.add(value)
    for share in (0.5, 0.95, 0.99, 0.999, 1.0):
        assert found.quantiles_ns([share])[0] == pytest.approx(values[math.ceil(share * 10_000) - 1], rel=0.001)
    summary = found.summary_us()
    assert summary["n"] == 10_000
    assert summary["avg"] == round(sum(values) / 10_000 / 1000, 3)
    assert (summary["min"], summary["max"]) == (values[0] / 1000, values[-1] / 1000)


def test_what_was_never_answered_is_infinite() -> None:
    found = Histogram()
    found.add(1_000_000, 98)
    summary = found.summary_us(endless=2)
    assert summary["n"] == 100
    assert summary["p95"] == 1000
    assert [summary[name] for name in ("p99", "max", "avg")] == [None, None, None]
    assert set(Histogram().summary_us(3).values()) == {3, None}
