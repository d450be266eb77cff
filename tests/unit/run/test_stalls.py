"""Who waited in a cell, and what a late sender is put down to."""

from typing import Any

import pytest

from looplab.run import stalls

ROLES = ("controller", "robot")


def scan(controller_ns: int | None, started: int = 7) -> dict[str, Any]:
    process = {"pid": 3, "started_ticks": started, "cpu_wait_ns": controller_ns}
    return {"clock_ns": 0, "roles": {"controller": {"processes": [process]}, "robot": {"processes": []}}}


def cell(p99_us: float) -> dict[str, Any]:
    return {"send_lateness_us": {"n": 100, "p99": p99_us}}


def floor(max_us: float, sum_us: float = 0.0, policy: str = "SCHED_FIFO 98") -> list[dict[str, Any]]:
    return [{"processor": 1, "policy": policy, "max_us": max_us, "sum_us": sum_us or max_us, "p99_us": 50.0}]


def test_waits_are_differences_of_the_same_process() -> None:
    assert stalls.between(scan(1_000_000), scan(4_500_000), ROLES)["cpu_wait_us"] == {"controller": 3500}
    assert stalls.between(scan(1_000_000), scan(4_500_000, started=8), ROLES)["cpu_wait_us"] == {}
    assert stalls.between(scan(None), scan(4_500_000), ROLES)["cpu_wait_us"] == {}


@pytest.mark.parametrize(
    ("p99_us", "held_us", "wait_us", "machine_us", "cause"),
    [
        (19_000, 80_000, 900_000, 900, None),
        (60_000, 60_000, 10_000, 45_000, "machine"),
        (60_000, 100_000, 80_000, 900, "scheduler"),
        (60_000, 60_000, 5_000, 900, "unknown"),
        # Waits of every message in a long cell, and ten stalls of another cause.
        (60_000, 600_000, 200_000, 900, "unknown"),
    ],
)
def test_a_late_sender_has_a_cause(
    p99_us: float, held_us: float, wait_us: float, machine_us: float, cause: str | None
) -> None:
    stalled = {"cpu_wait_us": {"controller": wait_us}, "noise_floor": floor(machine_us)}
    found = stalls.explained(cell(p99_us), stalled, held_us)
    assert found.get("late_because") == cause
    text = "\n".join(stalls.lines(found))
    assert ("The sender was late" in text) == (cause is not None)
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("noise", "cause"),
    [
        (floor(45_000, 400_000), "machine"),
        # An ordinary probe is late because tasks are in its way.
        (floor(45_000, 400_000, policy="SCHED_OTHER"), "unknown"),
        # One stall of 45 ms does not explain that the sender was held back for 600 ms.
        (floor(45_000), "unknown"),
    ],
)
def test_the_machine_is_a_cause_if_its_stalls_explain_the_time(noise: list[dict[str, Any]], cause: str) -> None:
    stalled = {"cpu_wait_us": {"controller": 5_000}, "noise_floor": noise}
    assert stalls.explained(cell(60_000), stalled, 600_000)["late_because"] == cause


@pytest.mark.parametrize(
    ("p99_us", "held_us", "wait_us", "noise", "words"),
    [
        # As it was seen: the sender in time, controller and broker 0.9 s on the run queue, noise floor 0.5 ms.
        (527_000, 1_000_000, 900_000, floor(500), "the broker waited 900 ms on the run queue"),
        (527_000, 600_000, 1_000, floor(500_000), "the machine itself stalled for 500 ms"),
        (527_000, 5_000_000, 900_000, floor(500), ""),
        (15_000, 1_000_000, 900_000, floor(500), ""),
    ],
)
def test_a_stall_that_hits_answers_is_named(
    p99_us: float, held_us: float, wait_us: float, noise: list[dict[str, Any]], words: str
) -> None:
    stalled = {"cpu_wait_us": {"controller": 0.8 * wait_us, "broker": wait_us}, "noise_floor": noise}
    times = {"T_us": {"n": 100, "p50": 1000.0, "p99": p99_us}}
    why = stalls.why_slow({**stalled, **stalls.answers({**cell(100), **times}, stalled, held_us)})
    assert bool(why) == bool(words)
    assert words in why
