"""What a study says it can decide: by its rounds and arms, and by the runs that are here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run_files import store

from looplab.experiments.loop.report.claims import claims
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.study_power import power
from looplab.report.power import OTHER_SD, USUAL_SD, Sides, run_sd, simulated
from looplab.report.statistics import compare_blocks
from looplab.report.study_file import Study
from looplab.report.verdicts import REPRODUCED, UNDECIDED

LOADS = {"scenario1": "none", "scenario2": "stress"}
BOTH_TWICE = ("scenario1", "scenario1", "scenario2", "scenario2")
O_MEAN = ("O_us", "avg")


def plan(rounds: int, *scenarios: str, name: str = "stress") -> Study:
    arms = dict(zip("abcdef", scenarios, strict=False))
    cells: dict[str, list[list[Any]]] = {one: [[20.0, 0]] for one in scenarios}
    options = {"FIDELITY": "thesis"}
    return Study("s", [name], 1, rounds, arms, [list(arms)] * rounds, options, {}, loads=LOADS, cells=cells)


def put(results: Path, run_id: str, cost: float, **changes: object) -> None:
    """Store a run whose cells have this `cost`."""
    path = store(results, run_id) / "run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, **changes, "cells": [{**cell, "cost": cost} for cell in run["cells"]]}))


def test_a_study_says_how_likely_each_word_is(tmp_path: Path) -> None:
    claim, spread = power(EXPERIMENTS["loop"], plan(5, *BOTH_TWICE), tmp_path)
    assert claim.startswith("stress: if the published +57% is true, undecided ")
    assert "reproduced 3" in claim
    assert "13% in scenario1 (usual), 30% in scenario2 (usual)" in spread
    # Of three rounds with an arm each, no word can come.
    few, _ = power(EXPERIMENTS["loop"], plan(3, "scenario1", "scenario2"), tmp_path)
    assert few == "stress: if the published +57% is true, undecided 100%; if nothing is, undecided 100%."


@pytest.mark.parametrize("name", ["flood-qos-1-2", "robot-third"])
def test_of_what_no_chance_is_known_none_is_named(tmp_path: Path, name: str) -> None:
    (line,) = power(EXPERIMENTS["loop"], plan(5, "scenario1", name=name), tmp_path)
    assert line == f"{name}: each run counts once, in 5 rounds; no chance is simulated."


@pytest.mark.parametrize(("rounds", "change"), [(5, 0.57), (9, 0.57), (9, 0.0)])
def test_the_chance_is_that_of_studies_of_known_truth(rounds: int, change: float) -> None:
    """Runs of a round differ by 13 and 31 %, rounds by more; within 10 points, as it promises."""
    sds = (0.13, 0.31)
    (effect,) = (one.effect({name: [(20.0, 0)] for name in LOADS}) for one in claims() if one.name == "stress")
    assert effect is not None
    promised = simulated({"": effect}, {"": Sides((2, 2), rounds, sds)}, {"": change})[""]
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        levels = np.log(effect.baseline or 0) + rng.normal(0, 0.3, rounds)
        sides = ((level, level + np.log1p(change)) for level in levels)
        drawn = [[np.exp(rng.normal(at, sd, 2)) for at, sd in zip(side, sds, strict=True)] for side in sides]
        comparison = compare_blocks([(before, after) for before, after in drawn])
        assert comparison is not None
        question = effect.rule(comparison)
        found.append(question.decide(*question.p_values, 1)[0])
    for word in (REPRODUCED, UNDECIDED):
        assert promised.share(word) == pytest.approx(found.count(word) / len(found), abs=0.1)


def test_the_sd_is_that_of_neighbouring_runs_here(tmp_path: Path) -> None:
    """Runs of one scenario that differ by 20 %, and slowly by a factor of three: the drift is no part of a round."""
    rng = np.random.default_rng(2)
    both = plan(5, *BOTH_TWICE)
    assert run_sd(tmp_path, "scenario1", both, O_MEAN) == (OTHER_SD, 0)
    assert run_sd(tmp_path, "scenario2", both, O_MEAN) == (USUAL_SD["stress"], 0)
    for number, level in enumerate(np.exp(np.linspace(0, 1.1, 60) + rng.normal(0, 0.2, 60))):
        put(tmp_path, f"20260101T00{number:02}00Z-scenario1", level)
    # No verdict may rest on these, or the study asks for another fidelity.
    put(tmp_path, "20260101T003030Z-scenario1", 900.0, quiet=False)
    put(tmp_path, "20260101T004030Z-scenario1", 900.0, fidelity="printed")
    assert run_sd(tmp_path, "scenario1", both, O_MEAN) == (0, 60)
    sd, count = run_sd(tmp_path, "scenario1", both, ["cost"])
    assert count == 60
    assert sd == pytest.approx(0.2, rel=0.25)
    assert "0% in scenario1 (60 runs here)" in power(EXPERIMENTS["loop"], both, tmp_path)[1]
