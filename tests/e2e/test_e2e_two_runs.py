"""Two runs of one lab at once: the first stays whole, the second ends with exit code 3."""

import os
import signal
from pathlib import Path

from support.containers import docker
from support.e2e_lab import PROJECT, Lab, needs_root
from support.run_checks import check_run, read_samples
from support.waiting import until

from looplab.run.record import ROWS, read_state
from looplab.run.samples import SharedSamples

QUICK = {"INTERVALS_MS": "20", "MESSAGES": "100", "REPETITIONS": "1", "ROBOT_FRAMING": "line"}


def live_folder() -> Path:
    return Path(docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_live"))


def measured(live: Path) -> int:
    """Return how many messages the run that goes on has measured."""
    return sum(map(bool, SharedSamples(live / ROWS)["state"]))


def test_a_second_run_leaves_the_first_whole(lab: Lab) -> None:
    """By ./lab and by Compose, whose load makes the first run invalid; the first goes on without its own ./lab, too."""
    before = set((lab.root / "results").iterdir())
    running = lab.measuring("scenario1", 7)
    controller = lab.container("scenario1")
    second = lab.run("run", "scenario0", "--quick", code=3)
    assert f"process {running.process.pid}" in second.stderr
    assert "scenario1" in second.stderr
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    orphaned = lab.run("run", "scenario0", "--quick", code=3)
    assert "scenario1, since 20" in orphaned.stderr
    third = lab.compose("--profile", "scenario2", "up", **QUICK)
    assert "Another run of this lab goes on: scenario1, since " in third.stderr
    assert lab.wait_for_end("scenario2") == 3
    assert lab.container("scenario1") == controller
    assert lab.wait_for_end("scenario1") == 1
    folder, run = lab.newest()
    check_run(folder, run)
    assert run["cells"][0]["sent"] == 700
    assert "stress load: wanted not running, found running" in run["invalid_because"]
    assert set((lab.root / "results").iterdir()) - before == {folder}


@needs_root
def test_what_a_killed_run_measured_is_recovered(lab: Lab) -> None:
    """The process in whose PID namespace the controller lives takes it along, in the middle of a repetition of 100."""
    before = set((lab.root / "results").iterdir())
    running = lab.measuring("scenario1", 5)
    # Asking the engine takes longer than a part of a repetition.
    process, live = lab.process("treatments"), live_folder()
    until(lambda: 10 < measured(live) % 100 < 80, "the middle of a repetition")
    os.kill(process, signal.SIGKILL)
    code, _, said = running.finish()
    assert code == 3
    assert "Traceback" not in said
    assert "scenario1 ended with exit code 137" in said
    assert lab.containers(running=False) == {}
    (kept,) = set((lab.root / "results").iterdir()) - before
    samples = read_samples(kept)
    assert f"What it measured is kept in results/{kept.name}: {len(samples)} samples" in said
    assert len(samples) % 100 not in (0, 99)
    assert [row["sequence"] for row in samples] == [str(number) for number in range(len(samples))]
    assert not (kept / "run.json").exists()


def test_the_next_start_of_compose_recovers_a_killed_run(lab: Lab) -> None:
    """The controller alone is killed."""
    before = set((lab.root / "results").iterdir())
    lab.compose("--profile", "scenario1", "up", "--detach", **{**QUICK, "MESSAGES": "1000"})
    live = live_folder()
    until(lambda: read_state(live).get("state") == "running", "the run", 60)
    until(lambda: measured(live) > 150, "messages", 60)
    lab.kill_process("scenario1")
    lab.compose("up", "--detach")
    (kept,) = set((lab.root / "results").iterdir()) - before
    assert len(read_samples(kept)) > 150
    said = lab.compose("logs", "--no-log-prefix", "prepare").stdout
    assert f"samples kept in results/{kept.name}" in " ".join(said.split())
    lab.run("down", code=0)
