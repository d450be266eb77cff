"""Two runs of one lab at once: the first stays whole, the second ends with exit code 3."""

import signal
import time
from pathlib import Path

import pytest
from support.containers import docker
from support.e2e_lab import PROJECT, Background, Lab
from support.run_checks import read_samples
from support.waiting import until

from looplab.run.record import ROWS, read_state
from looplab.run.samples import SharedSamples

QUICK = {"INTERVALS_MS": "20", "MESSAGES": "100", "REPETITIONS": "1", "ROBOT_FRAMING": "line"}


def start(lab: Lab) -> Background:
    """Start ./lab run of ten seconds; return in the middle of sending."""
    running = lab.start("run", "scenario1", "--intervals", "20", "--messages", "100", "--repetitions", "5", "--json")
    running.wait_for("20 ms, QoS 0")
    return running


def test_a_second_run_leaves_the_first_whole(lab: Lab) -> None:
    """By ./lab, which names the process, and by Compose, whose load makes the first run invalid."""
    before = set((lab.root / "results").iterdir())
    running = start(lab)
    second = lab.run("run", "scenario0", "--quick", code=3)
    assert f"process {running.process.pid}" in second.stderr
    assert "scenario1" in second.stderr
    third = lab.compose("--profile", "scenario2", "up", **QUICK)
    assert "Another run of this lab goes on: scenario1, since " in third.stderr
    assert lab.wait_for_end("scenario2") == 3
    code, output, said = running.finish()
    assert code == 1, said
    run = lab.stored(output)
    assert run["cells"][0]["sent"] == 500
    assert "stress load: wanted not running, found running" in run["invalid_because"]
    assert {path.name for path in set((lab.root / "results").iterdir()) - before} == {run["run_id"]}


def test_a_run_that_no_lab_follows_goes_on(lab: Lab) -> None:
    running = start(lab)
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    controller = lab.container("scenario1")
    second = lab.run("run", "scenario0", "--quick", code=3)
    assert "scenario1, since 20" in second.stderr
    assert lab.container("scenario1") == controller
    assert lab.wait_for_end("scenario1") in (0, 1)
    assert lab.newest()[1]["cells"][0]["sent"] == 500


def test_down_names_the_run_that_it_ends(lab: Lab) -> None:
    running = start(lab)
    assert "This ends a run that goes on: scenario1 of " in lab.run("down", code=0).stderr
    code, _, said = running.finish()
    assert code == 1, said
    assert "scenario1 was stopped from elsewhere" in said
    assert lab.interrupted()[-1].name in said


@pytest.mark.parametrize("part", ["scenario1", "treatments"])
def test_what_a_killed_run_measured_is_recovered(lab: Lab, part: str) -> None:
    """The controller, or the process in whose PID namespace it lives; in the middle of a repetition of 100."""
    before = set((lab.root / "results").iterdir())
    running = start(lab)
    time.sleep(1)
    lab.kill_process(part)
    code, _, said = running.finish()
    assert code == 3
    (kept,) = set((lab.root / "results").iterdir()) - before
    samples = read_samples(kept)
    assert f"What it measured is kept in results/{kept.name}: {len(samples)} samples" in said
    assert len(samples) % 100 not in (0, 99)
    assert [row["sequence"] for row in samples] == [str(number) for number in range(len(samples))]


def test_the_next_start_of_compose_recovers_a_killed_run(lab: Lab) -> None:
    before = set((lab.root / "results").iterdir())
    lab.compose("--profile", "scenario1", "up", "--detach", **{**QUICK, "MESSAGES": "1000"})
    live = Path(docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_live").strip())
    until(lambda: read_state(live).get("state") == "running", "the run", 60)
    until(lambda: sum(map(bool, SharedSamples(live / ROWS)["state"])) > 150, "messages", 60)
    lab.kill_process("scenario1")
    lab.compose("up", "--detach")
    (kept,) = set((lab.root / "results").iterdir()) - before
    assert len(read_samples(kept)) > 150
    said = lab.compose("logs", "--no-log-prefix", "prepare").stdout
    assert f"samples kept in results/{kept.name}" in " ".join(said.split())
    lab.run("down", code=0)
