"""What a study can decide, by its rounds and arms and the runs that are here; by which rules it was judged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import shown
from support.run_files import store, write_study
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.report.claims import claims
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.study_inside import power, words
from looplab.report.power import Sides, run_sds, simulated
from looplab.report.statistics import compare_blocks
from looplab.report.study_file import Study, digest_of_rules
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
    for _ in range(150):
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
    assert run_sds(tmp_path, both, O_MEAN) == {"scenario1": (0.13, 0), "scenario2": (0.30, 0)}
    longer = run_sds(tmp_path, replace(both, messages=dict.fromkeys(LOADS, 300)), O_MEAN)
    assert longer == {"scenario1": (0.13, 0), "scenario2": (pytest.approx(0.245, abs=0.001), 0)}
    for number, level in enumerate(np.exp(np.linspace(0, 1.1, 60) + rng.normal(0, 0.2, 60))):
        put(tmp_path, f"20260101T00{number:02}00Z-scenario1", level)
    # No verdict may rest on these, or the study asks for another fidelity.
    put(tmp_path, "20260101T003030Z-scenario1", 900.0, quiet=False)
    put(tmp_path, "20260101T004030Z-scenario1", 900.0, fidelity="printed")
    assert run_sds(tmp_path, both, O_MEAN)["scenario1"] == (0, 60)
    sd, count = run_sds(tmp_path, both, ["cost"])["scenario1"]
    assert count == 60
    assert sd == pytest.approx(0.2, rel=0.25)
    assert "0% in scenario1 (60 runs here)" in power(EXPERIMENTS["loop"], both, tmp_path)[1]


def test_the_words_of_a_finished_study_are_kept_with_its_rules(tmp_path: Path) -> None:
    """Later rules may say another word: the page prints both."""
    loop = EXPERIMENTS["loop"]
    rng = np.random.default_rng(4)
    for number in range(6):
        for scenario, median in (("scenario1", 9000.0), ("scenario2", 13500.0)):
            cells = {(20.0, 0): simulated_cell(rng, 3, 20, median * float(np.exp(rng.normal(0, 0.01))), 4290)}
            write_run(tmp_path, scenario, start=f"20260101T00{number:02}00Z", cells=cells)
    plan = write_study(tmp_path)
    (line,) = words(loop, plan, tmp_path)
    found = json.loads(line)
    assert found["stress"] == {"thesis": REPRODUCED}
    assert "qos-2" not in found
    assert "were not stored" in shown(tmp_path).verdict("stress").plan
    plan.rules = digest_of_rules(loop.folder)
    plan.write(tmp_path)
    assert "rules" not in shown(tmp_path).verdict("stress").plan
    plan.rules, plan.words = "of before", {"stress": {"thesis": UNDECIDED}}
    plan.write(tmp_path)
    said = shown(tmp_path).verdict("stress")
    assert said.plan.endswith("It is judged by other rules than were planned, by which it was: undecided.")
    assert said.outcome == REPRODUCED


def test_what_decides_is_in_the_digest(tmp_path: Path) -> None:
    own = tmp_path / "report"
    own.mkdir()
    (own / "claims.csv").write_text("name,rule\na,higher\n")
    before = digest_of_rules(tmp_path)
    (own / "figures.py").write_text("x = 1\n")
    (own / "claims.py").write_text("\n# A comment.\n")
    empty = digest_of_rules(tmp_path)
    (own / "claims.py").write_text("# Another.\n")
    assert digest_of_rules(tmp_path) == empty
    (own / "claims.csv").write_text("name,rule\na,lower\n")
    assert len({before, empty, digest_of_rules(tmp_path)}) == 3


def test_earlier_and_abandoned_studies_are_counted(tmp_path: Path) -> None:
    for number in range(3):
        for scenario in LOADS:
            cells = {(20.0, 0): simulated_cell(np.random.default_rng(number), 3, 20, 9000, 4290)}
            write_run(tmp_path, scenario, start=f"20260102T00{number:02}00Z", cells=cells)
    done = write_study(tmp_path)
    left = replace(done, study="20260101T000000Z-left", runs=done.runs[:3], blocks=done.blocks * 2)
    left.write(tmp_path)
    replace(left, study="20260101T000000Z-other", arms={"a": "scenario4"}).write(tmp_path)
    text = shown(tmp_path).verdict("stress").plan
    assert "It is study 2 of 2 of this claim here. One was left after 2 rounds." in text
