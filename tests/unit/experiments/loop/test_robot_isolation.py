"""Whether the load reached the robot: by the time it takes, apart from what its requests wait for one another."""

import pytest

from looplab.experiments.loop.document import COLUMNS
from looplab.experiments.loop.parameters import Parameters, read_parameters
from looplab.experiments.loop.treatments import judge_robot
from looplab.run.samples import ANSWERED, SampleStore

MS = 1_000_000
COUNT = 100


def parameters(**settings: str) -> Parameters:
    return read_parameters({"SCENARIO": "scenario2", **settings})


def store_of(robot_ns: int, wait_ns: int) -> tuple[Parameters, SampleStore]:
    p = parameters(INTERVALS_MS="20", QOS="0", MESSAGES=str(COUNT), REPETITIONS="1")
    store = SampleStore(p.samples, more=COLUMNS)
    for row in range(COUNT):
        store["robot_ns"][row], store["wait_ns"][row], store["state"][row] = robot_ns, wait_ns, ANSWERED
    return p, store


@pytest.mark.parametrize(
    ("robot_ms", "wait_ms", "verified"), [(4.4, 0, True), (6.4, 0, False), (40, 35.6, True), (40, 33, False)]
)
def test_waiting_for_other_requests_is_not_the_loads_doing(robot_ms: float, wait_ms: float, verified: bool) -> None:
    p, store = store_of(round(robot_ms * MS), round(wait_ms * MS))
    (found,) = judge_robot(p, store, virtual=True)
    assert found.verified == verified
    assert not found.required
    assert ("100 of 100" in found.note) == (wait_ms > 0)


def test_nothing_is_said_of_a_real_robot_or_none_or_before_the_first_answer() -> None:
    p, store = store_of(4 * MS, 0)
    assert judge_robot(p, store, virtual=False) == []
    assert judge_robot(p, SampleStore(p.samples, more=COLUMNS), virtual=True) == []
    emulated = parameters(COMMAND="E")
    assert judge_robot(emulated, store, virtual=True) == []
