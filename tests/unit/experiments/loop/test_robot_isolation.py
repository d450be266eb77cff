"""Whether the load reached bridge and robot: by their own wait for a processor."""

from typing import Any

import pytest

from looplab.experiments.loop.parameters import read_parameters
from looplab.experiments.loop.treatments import judge_robot

TEMPERATURE, EMULATED = (read_parameters({"SCENARIO": "scenario2", "COMMAND": command}) for command in "TE")


def cell(bridge_us: float, robot_us: float = 0.0, overhead_us: float | None = 1000.0, **changes: Any) -> dict[str, Any]:
    """A cell in which bridge and robot waited so long at each wake-up, on average; idle ones wake up more often."""
    waits = {"bridge": 200 * bridge_us, "robot": 5000 * robot_us, "broker": 9e9}
    whole = {
        "interval_ms": 20, "qos": 0, "O_us": {"n": 100, "avg": overhead_us}, "cpu_wait_us": waits,
        "cpu_runs": {"bridge": 200, "robot": 5000, "broker": 1},
    }  # fmt: skip
    return {**whole, **changes}


@pytest.mark.parametrize(
    ("bridge_us", "robot_us", "overhead_us", "verified"),
    [
        (10, 35, 1000, True),
        (10, 45, 1000, False),
        (55, 0, 1000, False),
        # Two milliseconds are two milliseconds, be O 1 ms or 50.
        (1000, 0, 50_000, False),
        (10, 35, 50_000, True),
        (10, 35, 300, True),
    ],
)
def test_their_own_wait_is_judged_in_absolute_time(
    bridge_us: float, robot_us: float, overhead_us: float, verified: bool
) -> None:
    quiet = cell(5, 5, interval_ms=100)
    (found,) = judge_robot(TEMPERATURE, [quiet, cell(bridge_us, robot_us, overhead_us)], virtual=True)
    assert found.verified == verified
    assert not found.required
    assert "at 20 ms, QoS 0" in found.found
    assert bool(found.note) != verified


def test_an_emulated_answer_needs_no_robot() -> None:
    (found,) = judge_robot(EMULATED, [cell(100, robot_us=1000)], virtual=True)
    assert found.found == "200 us of 1000 us at 20 ms, QoS 0"


def test_nothing_is_said_of_a_real_robot() -> None:
    assert judge_robot(TEMPERATURE, [cell(5)], virtual=False) == []
    unsent = cell(5, O_us={"n": 0, "avg": None})
    assert judge_robot(TEMPERATURE, [unsent, cell(5, cpu_wait_us={})], virtual=True) == []
