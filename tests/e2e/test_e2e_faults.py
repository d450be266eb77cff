"""Faults in the middle of a run: it goes on or ends clearly, its counts add up, nothing is left running."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.e2e_lab import Background, Lab, needs_root
from support.run_checks import read_samples, total, treatments


def start(lab: Lab, scenario: str, repetitions: int, *options: str, **variables: str) -> Background:
    """Start ./lab run at 20 ms; return with its first repetition (2 s) done."""
    running = lab.start(
        "run", scenario, "--intervals", "20", "--messages", "100", "--repetitions", str(repetitions), *options,
        ROBOT_FRAMING="line", **variables,
    )  # fmt: skip
    running.wait_for("20 ms, QoS 0")
    return running


def statuses(run: dict[str, Any], topic: str) -> list[str]:
    return [event["status"] for event in run["events"] if event["topic"] == topic]


@needs_root
def test_a_run_goes_on_after_parts_were_killed(lab: Lab) -> None:
    """The robot, then the bridge: Compose restarts both. A broker that dies: test_e2e_brokers.py."""
    running = start(lab, "scenario1", 5, "--json", "--allow-invalid")
    for service in ("robot", "bridge"):
        time.sleep(0.5)
        lab.kill_process(service)
        # Until it is back.
        time.sleep(1.5)
    code, output, said = running.finish()
    assert code == 0, said
    run = lab.stored(output)
    # The bridge goes on and answers for its robot; the bridge's last will speaks for it, then its successor.
    assert "offline" in statuses(run, "lab/robot/status")
    assert statuses(run, "lab/bridge/status")[-2:] == ["offline", "online"]
    assert statuses(run, "lab/robot/status")[-1] == "online"
    assert total(run, "robot_errors") > 0
    assert total(run, "lost") > 0
    assert total(run, "disconnects") == 0
    # What each had been given, its priority above all, was gone meanwhile.
    for role in ("robot", "bridge"):
        assert "restarted" in treatments(run)[f"{role} process"]["found"]
        assert [why for why in run["invalid_because"] if why.startswith(f"{role} process: ")]
    samples = read_samples(lab.root / "results" / run["run_id"])
    for repetition in ("0", "4"):
        outcomes = {row["outcome"] for row in samples if row["repetition"] == repetition}
        # On a busy machine an answer may be late, or the robot's.
        assert "answered" in outcomes, f"repetition {repetition}"
        assert "lost" not in outcomes, f"repetition {repetition}"


def test_an_interrupted_run_is_kept_and_stopped(lab: Lab) -> None:
    """By a terminal that is closed, then Ctrl-C of somebody in a hurry; both reach everything that ./lab started."""
    before = set(lab.interrupted())
    running = start(lab, "scenario0", 5)
    os.killpg(running.process.pid, signal.SIGHUP)
    running.wait_for("interrupted")
    time.sleep(0.3)
    os.killpg(running.process.pid, signal.SIGINT)
    code, _, said = running.finish(timeout_s=60)
    assert code == 1
    assert "Traceback" not in said
    (folder,) = set(lab.interrupted()) - before
    assert f"results/{folder.name}" in said
    assert not (folder / "run.json").exists()
    assert json.loads((folder / "interrupted.json").read_text())["interrupted_because"] == "interrupted"
    samples = read_samples(folder)
    assert 100 <= len(samples) < 500
    assert {row["outcome"] for row in samples[:100]} <= {"answered", "late"}
    assert lab.containers(running=False) == {}
    assert lab.networks() == []
    assert list((lab.root / "results").glob(".*.partial")) == []


def stress_dies(lab: Lab) -> None:
    lab.kill_process("stress")


def flood_is_stopped(lab: Lab) -> None:
    lab.kill_process("flood", signal.SIGSTOP)


# Stress takes the processors on purpose, from the test as well.
# What happens, in which scenario of how many repetitions; what is wanted then, and what is found or noted.
WEAKENED = [
    pytest.param(stress_dies, "scenario3", 2, "stress load", r"seen in [12] of [23] scans", marks=needs_root),
    pytest.param(
        flood_is_stopped, "scenario7", 8, "flood in every cell", "messages/s in cell 1 of 1", marks=needs_root
    ),
]


@pytest.mark.parametrize(("weaken", "scenario", "repetitions", "what", "words"), WEAKENED)
def test_a_run_whose_load_was_weakened_is_invalid(
    lab: Lab, weaken: Callable[[Lab], None], scenario: str, repetitions: int, what: str, words: str
) -> None:
    """Exit code 1; --allow-invalid makes it 0: test_e2e_link.py. Stress that is paused: the controller's test."""
    running = start(lab, scenario, repetitions, "--json")
    weaken(lab)
    code, output, said = running.finish()
    assert code == 1, said
    run = lab.stored(output)
    found = treatments(run)
    assert found[f"{what.partition(' ')[0]} load"]["verified"] == (weaken is not stress_dies)
    assert not found[what]["verified"]
    assert re.search(words, f"{found[what]['found']}; {found[what]['note']}")
    assert any(why.startswith(what) for why in run["invalid_because"])
