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


def live_cell() -> LiveLoopCell:
    return LiveLoopCell(LoopCell.keyed(20, 0), {"run_id": "r"})


def settle(cell: LiveLoopCell, row: dict[str, int], fate: str = "answered") -> None:
    """Count one message; what `row` does not hold is unknown."""
    names = (
        "due_ns", "sent_ns", "received_ns", "left_ns", "arrived_ns", "robot_ns", "wire_sent_ns", "wire_received_ns",
    )  # fmt: skip
    known = dict.fromkeys((*names, "wire_robot_ns", "wait_ns", "bridge_wake_up_ns", "bridge_send_path_ns"), -1)
    cell.settle_row(fate, {name: [value] for name, value in {**known, **row}.items()}, 0)


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
    parts = {name: value for name, value in cell.more_figures() if name.startswith("O: ")}
    expected = {"send_path": 0.2, "wake_up": 0.4, "bridge_wake_up": 0.4, "bridge_send_path": 0.1, "network": 3.9}
    assert parts == pytest.approx({f"O: {name}": value for name, value in expected.items()})
