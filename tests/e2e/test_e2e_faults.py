"""Faults in the middle of a run: it goes on or ends clearly, its counts add up, nothing is left running."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import publish
from support.containers import docker
from support.e2e_lab import Background, Lab
from support.run_checks import read_samples, total, treatments
from support.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="killing a container's process from outside needs root")

FIRST_REPETITION = "20 ms, QoS 0"


def start(lab: Lab, scenario: str, repetitions: int, *options: str, **variables: str) -> Background:
    """./lab run at 20 ms, its first repetition (2 s) done."""
    running = lab.start(
        "run", scenario, "--intervals", "20", "--messages", "100", "--repetitions", str(repetitions), *options,
        ROBOT_FRAMING="line", **variables,
    )  # fmt: skip
    running.wait_for(FIRST_REPETITION)
    return running


def statuses(run: dict[str, Any], topic: str) -> list[str]:
    return [event["status"] for event in run["events"] if event["topic"] == topic]


def broker_went(run: dict[str, Any]) -> None:
    # As printed, the controller publishes and receives over a connection each.
    assert total(run, "disconnects") == 2
    assert total(run, "lost") > 0


def bridge_went(run: dict[str, Any]) -> None:
    """Its last will speaks for it, then its successor."""
    assert statuses(run, "lab/bridge/status")[-2:] == ["offline", "online"]
    assert total(run, "lost") > 0
    assert total(run, "disconnects") == 0


def robot_went(run: dict[str, Any]) -> None:
    """The bridge goes on and answers for it."""
    assert statuses(run, "lab/robot/status")[-2:] == ["offline", "online"]
    assert run["bridge"]["reopened"] >= 1
    assert total(run, "robot_errors") > 0
    assert total(run, "disconnects") == 0


KILLED = {"broker": broker_went, "bridge": bridge_went, "robot": robot_went}


@needs_root
@pytest.mark.parametrize("service", KILLED)
def test_a_run_goes_on_after_a_part_was_killed(lab: Lab, service: str) -> None:
    running = start(lab, "scenario1", 4, "--json", "--allow-invalid")
    time.sleep(0.5)
    lab.kill_process(service)
    code, output, said = running.finish()
    assert code == 0, said
    run = lab.stored(output)
    KILLED[service](run)
    # What it had been given, its priority above all, was gone meanwhile.
    role = service.rpartition("-")[2]
    assert "restarted" in treatments(run)[f"{role} process"]["found"]
    assert [why for why in run["invalid_because"] if why.startswith(f"{role} process: ")]
    samples = read_samples(lab.root / "results" / run["run_id"])
    for repetition in ("0", "3"):
        outcomes = {row["outcome"] for row in samples if row["repetition"] == repetition}
        # On a busy machine an answer may be late, or the robot's.
        assert "answered" in outcomes, f"repetition {repetition}"
        assert "lost" not in outcomes, f"repetition {repetition}"
    assert any(row["outcome"] != "answered" for row in samples)


def to_group(running: Background) -> None:
    """As a terminal does on Ctrl-C: everything that ./lab started gets it as well."""
    os.killpg(running.process.pid, signal.SIGINT)


def to_group_twice(running: Background) -> None:
    """As somebody in a hurry does."""
    to_group(running)
    running.wait_for("interrupted")
    time.sleep(0.3)
    to_group(running)


def hang_up(running: Background) -> None:
    """As a terminal does that is closed; a `kill` is heard in the same way."""
    os.killpg(running.process.pid, signal.SIGHUP)


@pytest.mark.parametrize("interrupt", [to_group_twice, hang_up])
def test_an_interrupted_run_is_kept_and_stopped(lab: Lab, interrupt: Callable[[Background], None]) -> None:
    before = set(lab.interrupted())
    running = start(lab, "scenario0", 5)
    interrupt(running)
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
    assert partial_folders(lab) == []


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
    """Exit code 1; that --allow-invalid makes it 0 is seen with a link that died, in test_e2e_link.py."""
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


def test_a_run_whose_stress_was_throttled_is_invalid(lab: Lab) -> None:
    """A tenth of two processors from the beginning, as by `--cpus`: less than stress gets beside any other work."""
    words = "run scenario3 --intervals 20 --messages 100 --repetitions 2 --json"
    running = lab.start(*words.split(), ROBOT_FRAMING="line")
    until(lambda: lab.containers().get("stress"), "the container of stress", 60)
    docker("update", "--cpus", "0.2", lab.container("stress"))
    code, output, said = running.finish()
    assert code == 1, said
    run = lab.stored(output)
    found = treatments(run)
    assert found["stress load"]["verified"]
    assert not found["stress in every cell"]["verified"]
    assert "paused or limited" in found["stress in every cell"]["note"]
    (cell,) = run["cells"]
    assert cell["load"]["stress_cpu_s"] < 0.4 * cell["load"]["seconds"]


@needs_root
def test_a_run_whose_treatments_service_died_ends_clearly(lab: Lab) -> None:
    """It owns the PID namespace of the measured: the kernel ends them all with it."""
    before = {path.name for path in (lab.root / "results").iterdir()}
    running = start(lab, "scenario0", 5)
    lab.kill_process("treatments")
    code, _, said = running.finish(timeout_s=60)
    assert code == 3
    assert "Traceback" not in said
    assert "treatments container ended" in said
    assert lab.containers(running=False) == {}
    (kept,) = {path.name for path in (lab.root / "results").iterdir()} - before
    assert f"results/{kept}" in said
    assert not (lab.root / "results" / kept / "run.json").exists()
    assert len(read_samples(lab.root / "results" / kept)) >= 100


FOREIGN_REQUEST = b"E-somebody-7"
FOREIGN_ANSWER = b"somebody,7,ok,1000,20.00"
RUBBISH = [b"", b"hello", b"T-", b"T-x-1-2y", b"T--1", b"-,,,", bytes(range(256)), b"\xff\xfe" * 500, b"A" * 300_000]


def test_rubbish_on_the_topics_is_counted_and_disturbs_nothing(lab: Lab) -> None:
    running = start(lab, "scenario0", 3, "--json")
    messages = [(topic, payload, 1, False) for topic in ("request/", "answer/") for payload in RUBBISH]
    messages += [("request/", FOREIGN_REQUEST, 1, False), ("answer/", FOREIGN_ANSWER, 1, False)]
    publish.multiple(messages, hostname="127.0.0.1", port=int(lab.environment["LAB_BROKER_PORT"]))
    code, output, said = running.finish()
    assert code == 0, said
    run = lab.stored(output)
    assert total(run, "answered") + total(run, "late") == total(run, "sent") == 300
    assert total(run, "duplicates") == total(run, "disconnects") == 0
    assert run["malformed"] == len(RUBBISH)
    # The answer that was forged, and the bridge's true one to the request that was.
    assert run["foreign"] == 2
    assert run["bridge"]["counts"]["malformed"] == len(RUBBISH)
    warm_up = run["parameters"]["warmup_messages"]
    assert run["bridge"]["counts"]["requests"] == 300 + warm_up + 1


def partial_folders(lab: Lab) -> list[Path]:
    return list((lab.root / "results").glob(".*.partial"))
