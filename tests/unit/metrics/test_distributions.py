"""Histograms of the exporter against numpy, bound by bound."""

import numpy as np
import pytest

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.live import LiveLoopCell
from looplab.metrics.distributions import LATENCY_BOUNDS_S, Distribution


@pytest.mark.parametrize("seed", range(2))
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


def test_the_parts_of_o_are_means_over_fully_known_answers() -> None:
    cell = LiveLoopCell(LoopCell.keyed(20, 0), {"run_id": "r"})
    cell.add_sent(0)
    # What nobody knows is -1.
    unknown = dict.fromkeys(("wire_sent_ns", "wire_received_ns", "wire_robot_ns", "wait_ns"), -1)
    names = ("received_ns", "arrived_ns", "left_ns", "bridge_wake_up_ns", "bridge_send_path_ns")
    for times in ((5000, 4800, 100, 300, 50), (7000, 6400, 300, 500, 150), (9_000_000, 4800, 100, -1, -1)):
        row = {**unknown, "due_ns": 0, "sent_ns": 0, "robot_ns": 1000, **dict(zip(names, times, strict=True))}
        cell.settle_row("answered", {name: [value] for name, value in row.items()}, 0)
    parts = {name: value for name, value in cell.more_figures() if name.startswith("O: ")}
    expected = {"send_path": 0.2, "wake_up": 0.4, "bridge_wake_up": 0.4, "bridge_send_path": 0.1, "network": 3.9}
    assert parts == pytest.approx({f"O: {name}": value for name, value in expected.items()})
