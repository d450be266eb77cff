"""What the page says of a run before its figures: it follows from that run's own parameters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import shown
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

WIRELESS = "no wireless link"
UNTOUCHED = {
    "what": "robot untouched by the load", "wanted": "bridge and robot late by at most 10% of O",
    "found": "0.50 ms of 1.00 ms (50%) at 20 ms, QoS 0", "verified": False, "required": False,
}  # fmt: skip


def write(results: Path, scenario: str, parameters: dict[str, Any], **changes: Any) -> Path:
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(4), 10, 20, 900, 4290)}
    return write_run(results, scenario, cells=cells, parameters=parameters, changes=changes)


@pytest.mark.parametrize(
    ("parameters", "says", "never"),
    [
        ({}, [WIRELESS, "one network bridge"], ["LINK=wifi", "a machine of their own:"]),
        ({"link": "wifi", "robot": "virtual"}, ["a model of a wireless link"], [WIRELESS]),
        ({"link": "office", "robot": "virtual"}, ["emulated link “office”"], [WIRELESS]),
        ({"link": "none", "robot": "usb"}, [WIRELESS], ["a model of"]),
        (
            {"link": "none", "robot": "remote"},
            ["the real network between the two machines"],
            [WIRELESS, "one network bridge", "shared the processors", "own call of send"],
        ),
    ],
)
def test_the_set_up_of_a_run_is_that_of_its_parameters(
    results: Path, parameters: dict[str, Any], says: list[str], never: list[str]
) -> None:
    write(results, "scenario1", parameters)
    text = "\n".join(shown(results).context["setup"])
    assert [words for words in says if words not in text] == []
    assert [words for words in never if words in text] == []


def test_a_load_that_the_broker_counts_is_shown_with_its_dose(results: Path) -> None:
    folder = write(results, "scenario7", {"load": "flood", "broker": "mosquitto"})
    assert "messages a second" not in "\n".join(shown(results).context["setup"])
    with edited(folder) as run:
        run["cells"][0]["load"] = {"seconds": 3.4, "flood_messages_per_s": 194.5}
        run["environment"] |= {"versions": {"broker": "2.0.21"}, "images": {"flood": {"reference": "a/flood:1"}}}
    (dose,) = (note for note in shown(results).context["setup"] if "messages a second" in note)
    assert "The flood of a/flood:1 sent 194 to 194 messages a second in cells of 3.4 s" in dose
    assert dose.endswith("through mosquitto 2.0.21.")


def test_runs_of_two_set_ups_are_named(results: Path) -> None:
    write(results, "scenario1", {"link": "none", "robot": "virtual"})
    write(results, "scenario2", {"link": "wifi", "robot": "virtual"})
    found = shown(results).context["setup"]
    (plain,) = (note for note in found if WIRELESS in note)
    (wifi,) = (note for note in found if "a model of" in note)
    assert plain.startswith("scenario1")
    assert wifi.startswith("scenario2")
    # What both have in common is said once.
    assert [note.startswith("The bridge shared") for note in found if "shared the processors" in note] == [True]


def test_a_load_that_reached_the_robot_is_named(results: Path) -> None:
    write(results, "scenario2", {}, treatments=[UNTOUCHED])
    (note,) = (note for note in shown(results).context["notes"] if "short of processor time" in note)
    assert "0.50 ms of 1.00 ms" in note


def test_a_run_that_was_not_quiet_is_named_with_its_reason(results: Path) -> None:
    folder = write(results, "scenario1", {})
    assert not any("not quiet" in note for note in shown(results).context["notes"])
    with edited(folder) as run:
        run |= {"quiet": False, "not_quiet_because": ["the machine was suspended for 12.0 s"]}
    (note,) = (note for note in shown(results).context["notes"] if "not quiet" in note)
    assert "scenario1" in note
    assert note.endswith("the run was not quiet: the machine was suspended for 12.0 s.")


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
    (schedule,) = (note for note in notes if "the schedule itself was disturbed" in note)
    assert schedule.startswith("scenario1 (thesis) (2 of 4 runs)")
    assert "left 100.0 ms late or later" in schedule
    assert any(note.startswith("scenario1 (thesis), 20 ms, QoS 0 (2 of 4 runs): The sender was late") for note in notes)
    assert any(note.startswith("scenario1 (thesis) (2 of 4 runs): 1 malformed") for note in notes)
