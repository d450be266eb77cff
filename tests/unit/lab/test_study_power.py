"""What a study says it can find: by its rounds and arms, and by the runs that are here."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.run_files import store

from looplab.lab.study_power import USUAL_SD, power, run_sd
from looplab.report.statistics import compare_blocks
from looplab.report.study_file import Study


def plan(rounds: int, *scenarios: str) -> Study:
    arms = dict(zip("abcdef", scenarios, strict=False))
    return Study("s", ["stress"], 1, rounds, arms, [list(arms)] * rounds, {"FIDELITY": "thesis"}, {})


def put(results: Path, run_id: str, cost: float, **changes: object) -> None:
    """Store a run whose cells have this `cost`."""
    path = store(results, run_id) / "run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, **changes, "cells": [{**cell, "cost": cost} for cell in run["cells"]]}))


O_MEAN = ("O_us", "avg")
BOTH_TWICE = ("scenario1", "scenario1", "scenario2", "scenario2")


def test_a_study_of_too_few_rounds_says_so_before_it_starts(tmp_path: Path) -> None:
    assert "no p-value is below 0.062" in power(plan(5, "scenario1", "scenario2"), tmp_path, O_MEAN)
    assert "can decide nothing" in power(plan(2, *BOTH_TWICE), tmp_path, O_MEAN)
    assert "in 9 of 10 studies" in power(plan(6, "scenario1", "scenario2"), tmp_path, O_MEAN)
    together = "no p-value is below 0.062 for 4 questions asked together"
    assert together in power(plan(7, "scenario1", "scenario2"), tmp_path, O_MEAN, 4)


@pytest.mark.parametrize(("rounds", "arms", "questions"), [(5, 2, 1), (10, 1, 1), (10, 2, 4)])
def test_the_change_that_is_named_is_found_9_times_in_10(
    tmp_path: Path, rounds: int, arms: int, questions: int
) -> None:
    text = power(plan(rounds, *["scenario1"] * arms, *["scenario2"] * arms), tmp_path, O_MEAN, questions)
    change = float(text.partition("a change of ")[2].partition("%")[0]) / 100
    rng = np.random.default_rng(3)
    found = []
    for _ in range(400):
        levels = 7 + rng.normal(0, 0.3, rounds)
        sides = ((level + shift for shift in (0.0, np.log1p(change))) for level in levels)
        comparison = compare_blocks([tuple(np.exp(rng.normal(at, USUAL_SD, arms)) for at in side) for side in sides])  # type: ignore[misc]
        assert comparison is not None
        found.append(comparison.p_value < 0.05 / questions and comparison.share.low > 0)
    assert 0.84 <= np.mean(found) <= 0.97


def test_the_sd_is_that_of_neighbouring_runs_here(tmp_path: Path) -> None:
    """Runs of one scenario that differ by 20 %, and slowly by a factor of three: the drift is no part of a round."""
    rng = np.random.default_rng(2)
    assert run_sd(tmp_path, {"scenario1"}, O_MEAN) == (USUAL_SD, 0)
    for number, level in enumerate(np.exp(np.linspace(0, 1.1, 60) + rng.normal(0, 0.2, 60))):
        put(tmp_path, f"20260101T00{number:02}00Z-scenario1", level)
    # No verdict may rest on these, or the study asks for another fidelity.
    put(tmp_path, "20260101T003030Z-scenario1", 900.0, quiet=False)
    put(tmp_path, "20260101T004030Z-scenario1", 900.0, fidelity="printed")
    assert run_sd(tmp_path, {"scenario1"}, O_MEAN, "thesis") == (0, 60)
    sd, count = run_sd(tmp_path, {"scenario1", "scenario2"}, ["cost"], "thesis")
    assert count == 60
    assert sd == pytest.approx(0.2, rel=0.25)
    assert "as 60 earlier runs here do" in power(plan(5, *BOTH_TWICE), tmp_path, ["cost"])
