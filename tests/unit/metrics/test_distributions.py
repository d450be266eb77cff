"""Histograms and quantiles of the exporter against numpy, bound by bound."""

import numpy as np
import pytest
from looplab.experiments.loop.metrics import FAMILIES, ROBOT_BOUNDS_S, LoopCell
from prometheus_client.parser import text_string_to_metric_families

from looplab.metrics.distributions import LATENCY_BOUNDS_S, MAX_EXACT, QUANTILES, Distribution
from looplab.metrics.text_format import page


def test_bounds_are_48_a_decade_from_100_us_to_1_s() -> None:
    assert len(LATENCY_BOUNDS_S) == 4 * 48 + 1
    assert LATENCY_BOUNDS_S[0] == 0.0001
    assert LATENCY_BOUNDS_S[-1] == 1.0
    steps = np.diff(np.log10(LATENCY_BOUNDS_S))
    assert steps == pytest.approx(1 / 48, rel=1e-3)
    assert set(LATENCY_BOUNDS_S) <= set(ROBOT_BOUNDS_S)


@pytest.mark.parametrize("seed", range(5))
def test_counts_equal_numpys_ecdf_at_each_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = (random.lognormal(np.log(5e6), 1.5, 3000)).astype(np.int64)
    # Values exactly on a bound are the ones that go wrong.
    on_bounds = np.round(np.array(LATENCY_BOUNDS_S[::7]) * 1e9).astype(np.int64)
    values = np.concatenate([values, on_bounds, on_bounds + 1, on_bounds - 1])
    distribution = Distribution()
    for value in values:
        distribution.add(int(value))
    seconds = values / 1e9
    expected = [int((seconds <= bound).sum()) for bound in LATENCY_BOUNDS_S]
    assert distribution.cumulative() == [*expected, len(values)]


def test_quantiles_equal_numpys_while_values_keep_coming() -> None:
    random = np.random.default_rng(1)
    distribution, values = Distribution(), np.empty(0)
    for size in (1, 2, 49, 50, 51, 400):
        fresh = random.integers(1, 10**9, size)
        values = np.concatenate([values, fresh])
        for value in fresh:
            distribution.add(int(value))
        found = distribution.quantiles_ns()
        for q in QUANTILES:
            assert found[q] == pytest.approx(np.quantile(values, q), rel=1e-12)


def test_no_values_no_quantiles() -> None:
    assert Distribution().quantiles_ns() == {}


def test_too_many_values_give_no_quantiles_rather_than_wrong_ones() -> None:
    distribution = Distribution()
    for value in range(MAX_EXACT + 1):
        distribution.add(value)
    assert distribution.quantiles_ns() == {}
    assert distribution.count == MAX_EXACT + 1


def test_text_is_read_back_by_prometheus_own_parser() -> None:
    cell = LoopCell('odd"name\\', "thesis", 0.5, 1)
    for k in range(10):
        cell.add_sent(1000 * k)
        cell.add_outcome("answered")
        cell.add_latency(2_000_000 + k, 500_000, 0, 2_000_000 + k)
    families = {f.name: f for f in text_string_to_metric_families(page([cell.texts()], FAMILIES).decode())}
    assert families["loop_latency_seconds"].type == "histogram"
    assert families["loop_messages"].type == "counter"
    samples = families["loop_latency_seconds"].samples
    counts = {s.labels["metric"]: s.value for s in samples if s.name.endswith("_count")}
    assert counts == {"T": 10, "R": 10, "O": 10}
    labels = samples[0].labels
    assert labels["scenario"] == 'odd"name\\'
    assert (labels["interval_ms"], labels["qos"]) == ("0.5", "1")
    buckets = [s for s in samples if s.name.endswith("_bucket") and s.labels["metric"] == "O"]
    assert len(buckets) == len(LATENCY_BOUNDS_S) + 1
    total = next(s for s in samples if s.name.endswith("_sum") and s.labels["metric"] == "R")
    assert total.value == pytest.approx(0.005)


def test_the_parts_of_o_are_means_over_the_answers_of_which_all_are_known() -> None:
    """Columns: R, due, received, sent, left, arrived, the bridge's wake-up and send path."""
    cell = LoopCell("scenario0", "thesis", 20, 0)
    cell.add_sent(0)
    cell.add_latency(5000, 1000, 0, 5000, 0, 100, 4800, 300, 50)
    cell.add_latency(7000, 1000, 0, 7000, 0, 300, 6400, 500, 150)
    cell.add_latency(9_000_000, 1000, 0, 9_000_000, 0, 100, 4800, -1, -1)
    families = {f.name: f for f in text_string_to_metric_families(page([cell.texts()], FAMILIES).decode())}
    found = {s.labels["part"]: s.value * 1e9 for s in families["loop_overhead_part_seconds"].samples}
    assert found == pytest.approx(
        {"send_path": 200, "wake_up": 400, "bridge_wake_up": 400, "bridge_send_path": 100, "network": 3900}
    )


def test_unchanged_cell_is_not_rendered_again() -> None:
    cell = LoopCell("scenario0", "thesis", 20, 0)
    cell.add_sent(5)
    first = cell.texts()
    assert cell.texts() is first
    cell.add_outcome("lost")
    second = cell.texts()
    assert second is not first
    assert 'outcome="lost"} 1' in second["loop_messages_total"]
