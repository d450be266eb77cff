"""Parts that die in the middle of a run and come back: it goes on, and its counts add up.

A load or a link that falls: test_e2e_record.py; a broker, a flood: test_e2e_brokers.py; an interruption:
test_e2e_study.py.
"""

import time
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
