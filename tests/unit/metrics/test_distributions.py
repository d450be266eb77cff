"""Histograms and quantiles of the exporter against numpy, bound by bound."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.live import Live
from looplab.metrics.cells import families as families_of
from looplab.metrics.cells import labels_of
from looplab.metrics.distributions import LATENCY_BOUNDS_S, MAX_EXACT, QUANTILES, Distribution, bounds_s
from looplab.metrics.text_format import page


def test_bounds_are_48_a_decade_from_100_us_to_1_s() -> None:
    assert len(LATENCY_BOUNDS_S) == 4 * 48 + 1
    assert LATENCY_BOUNDS_S[0] == 0.0001
    assert LATENCY_BOUNDS_S[-1] == 1.0
    steps = np.diff(np.log10(LATENCY_BOUNDS_S))
    assert steps == pytest.approx(1 / 48, rel=1e-3)
    assert set(LATENCY_BOUNDS_S) <= set(bounds_s(*LoopCell.R.decades))


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


def test_too_many_values_give_no_quantiles() -> None:
    distribution = Distribution()
    for value in range(MAX_EXACT + 1):
        distribution.add(value)
    assert distribution.quantiles_ns() == {}
    assert distribution.count == MAX_EXACT + 1


FAMILIES = families_of(LoopCell)


def live_cell(scenario: str = "scenario0", interval_ms: float = 20, qos: int = 0) -> Live:
    cell = LoopCell.keyed(interval_ms, qos)
    return Live(cell, labels_of({"scenario": scenario, "fidelity": "thesis"}, cell))


def settle(cell: Live, row: dict[str, int], fate: str = "answered") -> None:
    """Count one message; what `row` does not hold is unknown."""
    names = (
        "due_ns", "sent_ns", "received_ns", "left_ns", "arrived_ns", "robot_ns", "wire_sent_ns", "wire_received_ns",
    )  # fmt: skip
    known = dict.fromkeys((*names, "wire_robot_ns", "wait_ns", "bridge_wake_up_ns", "bridge_send_path_ns"), -1)
    cell.settle_row(fate, {name: [value] for name, value in {**known, **row}.items()}, 0)


def test_text_is_read_back_by_prometheus_own_parser() -> None:
    cell = live_cell('odd"name\\', 0.5, 1)
    for k in range(10):
        cell.add_sent(1000 * k)
        settle(cell, {"due_ns": 0, "sent_ns": 0, "received_ns": 2_000_000 + k, "robot_ns": 500_000})
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


def test_the_parts_of_o_are_means_over_fully_known_answers() -> None:
    cell = live_cell()
    cell.add_sent(0)
    for received, arrived, left, wake_up, send_path in (
        (5000, 4800, 100, 300, 50),
        (7000, 6400, 300, 500, 150),
        (9_000_000, 4800, 100, -1, -1),
    ):
        settle(cell, {
            "due_ns": 0, "sent_ns": 0, "received_ns": received, "robot_ns": 1000, "left_ns": left,
            "arrived_ns": arrived, "bridge_wake_up_ns": wake_up, "bridge_send_path_ns": send_path,
        })  # fmt: skip
    families = {f.name: f for f in text_string_to_metric_families(page([cell.texts()], FAMILIES).decode())}
    parts = {s.labels["part"]: s.value * 1e9 for s in families["loop_overhead_part_seconds"].samples}
    assert parts == pytest.approx(
        {"send_path": 200, "wake_up": 400, "bridge_wake_up": 400, "bridge_send_path": 100, "network": 3900}
    )


def test_unchanged_cell_is_not_rendered_again() -> None:
    cell = live_cell()
    cell.add_sent(5)
    first = cell.texts()
    assert cell.texts() is first
    settle(cell, {"due_ns": 0, "sent_ns": 5}, "lost")
    second = cell.texts()
    assert second is not first
    assert 'outcome="lost"} 1' in second["loop_messages_total"]
