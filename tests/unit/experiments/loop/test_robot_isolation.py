"""Whether the load reached bridge and robot: by their own delay, against O."""

from typing import Any

import pytest

from looplab.experiments.loop.treatments import judge_robot


def cell(wait_us: float, lag_us: float = 0.0, overhead_us: float | None = 1000.0, **changes: Any) -> dict[str, Any]:
    """A cell of 100 requests; `wait_us` is the bridge's run-queue wait of each, `lag_us` the robot's mean lag."""
    whole = {
        "interval_ms": 20, "qos": 0, "sent": 100, "O_us": {"n": 100, "avg": overhead_us},
        "cpu_wait_us": {"bridge": 100 * wait_us, "robot": 9e9}, "robot_lag": {"lag_mean_us": lag_us},
    }  # fmt: skip
    return {**whole, **changes}


@pytest.mark.parametrize(
    ("wait_us", "lag_us", "overhead_us", "verified"),
    [
        (20, 30, 1000, True),
        (20, 90, 1000, False),
        (110, 0, 1000, False),
        # A millisecond is much of 1 ms of O, and nothing of 50 ms.
        (1000, 0, 50_000, True),
    ],
)
def test_their_own_delay_is_judged_against_o(wait_us: float, lag_us: float, overhead_us: float, verified: bool) -> None:
    quiet = cell(5, 5, interval_ms=100)
    (found,) = judge_robot([quiet, cell(wait_us, lag_us, overhead_us)], virtual=True)
    assert found.verified == verified
    assert not found.required
    assert "at 20 ms, QoS 0" in found.found
    assert bool(found.note) != verified


def test_without_the_robots_own_count_the_bridge_is_judged_alone() -> None:
    (found,) = judge_robot([cell(200, robot_lag={})], virtual=True)
    assert found.found == "0.20 ms of 1.00 ms (20%) at 20 ms, QoS 0"


def test_nothing_is_said_of_a_real_robot_or_before_the_first_cell() -> None:
    assert judge_robot([cell(5)], virtual=False) == []
    unsent = cell(5, sent=0, O_us={"n": 0, "avg": None})
    assert judge_robot([unsent, cell(5, cpu_wait_us={})], virtual=True) == []
