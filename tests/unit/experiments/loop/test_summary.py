"""The summary that a run ends with: within 80 columns, and within a screen for one cell."""

import json
from typing import Any

import pytest
from support.places import ROOT

from looplab.experiments.loop import EXPERIMENT
from looplab.experiments.loop.summary import significant, summary
from looplab.run.life import NARROW, run_summary, runs_summary


@pytest.fixture
def run() -> dict[str, Any]:
    """The stored run of the handouts: scenario 1, one cell."""
    document: dict[str, Any] = json.loads((ROOT / "tests/support/sample_runs/loop.json").read_text())
    return document


def test_one_cell_fits_on_half_a_screen(run: dict[str, Any]) -> None:
    lines = summary(run).splitlines()
    assert len(lines) <= 13
    assert max(map(len, lines)) <= 80
    assert run_summary(EXPERIMENT, run).splitlines() == [*lines, f"  Kept in results/{run['run_id']}"]
    for cells in (1, 4):
        beside = run_summary(EXPERIMENT, {**run, "cells": run["cells"] * cells}, NARROW).splitlines()
        assert max(map(len, beside)) + len("scenario1-1  | ") <= 80


def test_two_runs_are_two_rows_of_one_table(run: dict[str, Any]) -> None:
    (cell,) = run["cells"]
    other = {**run, "scenario": "scenario2", "run_id": "other", "valid": False, "invalid_because": ["no stress"]}
    lines = runs_summary(EXPERIMENT, [run, other]).splitlines()
    assert max(map(len, lines)) <= 80
    assert "latencies in ms" in lines[0]
    first, second = (line.split() for line in lines[3:5])
    assert (first[0], first[-1], second[0], second[-1]) == ("scenario1", "8.74", "scenario2", "13.7")
    assert first[6:8] == [significant(cell[name]["p50"] / 1000) for name in ("T_us", "O_us")]
    assert "  scenario2: INVALID:" in lines
    # T depends on fitted constants, and O does not.
    assert "T* half O half" in lines[2]
    assert sum("depends on constants that were fitted" in line for line in lines) == 1
    assert [line for line in lines if "Kept in" in line] == [
        f"  Kept in results/{run['run_id']}",
        "  Kept in results/other",
    ]
    assert runs_summary(EXPERIMENT, [run]) == run_summary(EXPERIMENT, run)


def test_latencies_stand_beside_the_thesis_means(run: dict[str, Any]) -> None:
    rows = {line.split("  ")[1]: line.split() for line in summary(run).splitlines()[4:7]}
    cell = run["cells"][0]["T_us"]
    shown = [significant(cell[name] / 1000) for name in ("p50", "p95", "p99", "max")]
    assert rows["response time"][-5:] == [*shown[:2], f"{shown[2]}~", shown[3], "13.0"]
    assert rows["MQTT and network"][-1] == "8.74"
    assert "~ fewer than 5 messages lie beyond this quantile." in summary(run)
    assert "thesis mean" not in summary({**run, "scenario": "scenario9"})


def test_losses_name_their_causes(run: dict[str, Any]) -> None:
    (cell,) = run["cells"]
    cell |= {"sent": 300, "answered": 297, "lost": 3, "lost_by": {"merged": 3}, "beyond_interval": 0.25}
    text = summary(run)
    assert "297 answered, 3 lost (the bridge read two answers as one), 0 late" in text
    assert "75 of 300 requests had no answer when the next one was due" in text
    cell["lost_by"] = {"merged": 2, "unknown": 1}
    assert "3 lost (2: the bridge read two answers as one; 1: for an unknown" in summary(run)


def test_a_quantile_that_a_loss_reaches_is_lost(run: dict[str, Any]) -> None:
    run["cells"][0]["T_us"] |= {"p99": None, "max": None}
    assert summary(run).splitlines()[4].split()[-3:] == ["lost", "lost", "13.0"]


def test_a_late_sender_is_a_doubt(run: dict[str, Any]) -> None:
    assert "busy" not in summary(run)
    run["cells"][0]["send_lateness_us"]["p99"] = 67_000
    run["environment"] = {"load_before": [9.5], "cores": 2}
    text = " ".join(summary(run).split())
    assert "busy (load 9.5 on 2 cores before the run): 1 of 100 requests left 67.0 ms late or later." in text


def test_an_invalid_run_says_why_and_what_to_do(run: dict[str, Any]) -> None:
    what, found, remedy = "controller may use real-time priority", "rtprio limit 0; SYS_NICE not given", "set it"
    one = {"what": what, "wanted": "permitted", "found": found, "verified": False, "required": True, "note": remedy}
    why = [f"{what}: wanted permitted, found {found}", "cell 1: another reason"]
    text = summary({**run, "valid": False, "treatments": [one], "invalid_because": why})
    assert f"INVALID: - {why[0]} (set it) - {why[1]}" in " ".join(text.split())


def test_several_cells_are_a_line_each(run: dict[str, Any]) -> None:
    run["cells"] *= 3
    lines = summary(run).splitlines()
    assert [line.split()[0] for line in lines[4:7]] == ["20"] * 3
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("value", "text"), [(158.4, "158"), (46.61, "46.6"), (5.0, "5.00"), (0.07123, "0.071"), (0, "0.00"), (None, "-")]
)
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert significant(value) == text
