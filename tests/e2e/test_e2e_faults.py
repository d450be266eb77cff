"""Parts that die in the middle of a run: it goes on, its counts add up, and its record names what fell and what ran.

A broker, a flood: test_e2e_brokers.py; an interruption: test_e2e_study.py.
"""

import re
import time
from pathlib import Path
from typing import Any

from support.e2e_lab import Lab, needs_root
from support.run_checks import read_samples, total, treatments


def statuses(run: dict[str, Any], topic: str) -> list[str]:
    return [event["status"] for event in run["events"] if event["topic"] == topic]


@needs_root
def test_a_run_goes_on_after_parts_were_killed(lab: Lab) -> None:
    """The robot, then the bridge: Compose restarts both."""
    running = lab.measuring("scenario1", 5, "--allow-invalid", ROBOT_FRAMING="line")
    for service in ("robot", "bridge"):
        time.sleep(0.5)
        lab.kill_process(service)
        # Until it is back.
        time.sleep(1.5)
    run = running.ended()
    # The bridge goes on and answers for its robot; the bridge's last will speaks for it, then its successor.
    assert "offline" in statuses(run, "lab/robot/status")
    assert statuses(run, "lab/bridge/status")[-2:] == ["offline", "online"]
    assert statuses(run, "lab/robot/status")[-1] == "online"
    assert total(run, "robot_errors") > 0
    assert total(run, "lost") > 0
    # What each had been given, its priority above all, was gone meanwhile.
    for role in ("robot", "bridge"):
        assert "restarted" in treatments(run)[f"{role} process"]["found"]
        assert [why for why in run["invalid_because"] if why.startswith(f"{role} process: ")]
    # It goes on: the last repetition is answered; on a busy machine an answer may be late, or the robot's.
    samples = read_samples(lab.root / "results" / run["run_id"])
    outcomes = {row["outcome"] for row in samples if row["repetition"] == "4"}
    assert "answered" in outcomes
    assert "lost" not in outcomes


@needs_root
def test_the_record_names_what_ran_and_what_fell(lab: Lab, tmp_path: Path) -> None:
    """Stress and the link's emulator are killed. Who allows it gets 0, and the run is invalid all the same."""
    own = tmp_path / "own.yaml"
    own.write_text('services: {stress: {command: "--cpu 2 --timeout 4000s"}}\n')
    variables = {"LAB_OWN": str(own), "ROBOT_FRAMING": "line"}
    running = lab.measuring("scenario3", 10, "--link", "wifi", "--allow-invalid", **variables)
    lab.kill_process("stress")
    lab.kill_process("link")
    run = running.ended()
    assert not run["valid"]
    named = {reason.partition(":")[0]: reason for reason in run["invalid_because"]}
    assert named["stress options"].startswith("stress options: wanted --cpu 3")
    assert re.search(r"seen in \d+ of \d+ scans", treatments(run)["stress load"]["found"])
    assert "stress load" in named
    assert named["link"] == "link: wanted wifi, found not emulated to the end"
    # Without its emulator the link is as it was.
    assert total(run, "answered") + total(run, "late") == 1000
    assert run["environment"]["lab_own"]["file"] == str(own)
