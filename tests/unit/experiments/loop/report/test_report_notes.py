"""What the page says of a run before its figures: it follows from that run's own parameters."""

from pathlib import Path
from typing import Any

import numpy as np
from support.reports import shown
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

UNTOUCHED = {
    "what": "robot untouched by the load", "wanted": "bridge and robot late by at most 10% of O",
    "found": "0.50 ms of 1.00 ms (50%) at 20 ms, QoS 0", "verified": False, "required": False,
}  # fmt: skip


def write(results: Path, scenario: str, parameters: dict[str, Any], **changes: Any) -> Path:
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(4), 10, 20, 900, 4290)}
    return write_run(results, scenario, cells=cells, parameters=parameters, changes=changes)


def test_a_load_that_reached_the_robot_is_named(results: Path) -> None:
    write(results, "scenario2", {}, treatments=[UNTOUCHED])
    (note,) = (note for note in shown(results).context["notes"] if "short of processor time" in note)
    assert "0.50 ms of 1.00 ms" in note


def test_a_run_that_was_not_quiet_is_named_with_its_reason(results: Path) -> None:
    folder = write(results, "scenario1", {})
    with edited(folder) as run:
        run |= {"quiet": False, "not_quiet_because": ["the machine was suspended for 12.0 s"]}
    (note,) = (note for note in shown(results).context["notes"] if "not quiet" in note)
    assert "scenario1" in note
    assert note.endswith("The run was not quiet: the machine was suspended for 12.0 s.")


def test_a_stalled_cell_shows_who_waited_and_why(results: Path) -> None:
    folder = write(results, "scenario2", {})
    before = shown(results)
    assert not any("The sender was late" in note for note in before.context["notes"])
    assert "not recorded" in before.text
    seen = {"policy": "SCHED_FIFO 98", "wakeups": 900, "count": 1}
    with edited(folder) as run:
        run["cells"][0] |= {
            "cpu_wait_us": {"controller": 614_000.0, "broker": 2_500.0},
            "noise_floor": [
                {**seen, "processor": 0, "max_us": 900.0, "p99_us": 70.0},
                {**seen, "processor": 1, "max_us": 13_250.0, "p99_us": 80.0},
            ],
            "late_because": "scheduler",
        }
    after = shown(results)
    (note,) = (note for note in after.context["notes"] if "The sender was late" in note)
    assert note.startswith("scenario2")
    assert "614 ms on the run queue" in note
    assert "13.2 ms at most" in note
    for figures in ("controller 614.000, broker 2.500 ms", "p99 0.080, max 13.250 ms on processor 1"):
        assert figures in after.text
    assert "not recorded" not in after.text


def late(results: Path, day: int, max_us: float) -> None:
    """A run of which the answers of one cell queued at the robot, and the sender was late."""
    lateness = {
        "n": 200, "min": 1.0, "avg": 10.0, "p50": 2.0, "p95": 3.0, "p99": max_us / 2, "p999": 4.0, "max": max_us,
    }  # fmt: skip
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(day), 10, 20, 900, 4290)}
    with edited(write_run(results, "scenario1", start=f"202601{day:02}T000000Z", cells=cells)) as run:
        free = {**lateness, "n": 100 * day, "avg": 100.0 * day, "max": 1000.0 * day}
        more = {"late_because": "scheduler"} if max_us > 100_000 else {}
        run["cells"][0] |= {"send_lateness_us": lateness, "service_R_us": free, "waited": day, **more}
        run["malformed"] = day % 2


def test_what_several_runs_have_is_said_of_how_many(results: Path) -> None:
    for day, max_us in enumerate((300_000, 10, 200_000, 10), 1):
        late(results, day, max_us)
    report = shown(results)
    notes = report.context["notes"]
    (cell,) = report.measured[0].cells.values()
    assert cell.send_lateness["max"] == cell.document["send_lateness_us"]["max"] == 300_000
    assert (cell.free_R["n"], cell.free_R["avg"], cell.free_R["max"]) == (1000, 300.0, 4000.0)
    (busy,) = (note for note in notes if "This machine was busy" in note)
    assert busy.startswith("scenario1 (thesis) (2 of 4 runs): ")
    assert "1 of 100 requests left 100 ms late or later" in busy
    for words in ("The sender was late", "Ignored: 1 malformed"):
        assert any(note.startswith(f"scenario1 (thesis) (2 of 4 runs): {words}") for note in notes)
