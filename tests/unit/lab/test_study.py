"""Studies: order by seed, A/A arms, resuming; what one can decide, and by which rules it was judged."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.places import ROOT
from support.reports import shown
from support.run_files import store, write_study
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.report.claims import claims
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands import study
from looplab.lab.study_inside import power, words
from looplab.report.power import Sides, run_sds, simulated
from looplab.report.statistics import compare_blocks
from looplab.report.study_file import Study, digest_of_rules
from looplab.report.verdicts import REPRODUCED, UNDECIDED

LOADS = {"scenario1": "none", "scenario2": "stress", "scenario4": "stress"}
WHERE = {"code": "abc", "machine": "m", "boot": "b"}


def wanted(rounds: int = 3, seed: int = 7, **changes: Any) -> Study:
    """A study of which no order is drawn."""
    made = Study("s", ["stress"], seed, rounds, {}, [], {"INTERVALS_MS": "20"}, WHERE)
    return replace(made, **changes)


def begin(rounds: int = 3, seed: int = 7, loads: dict[str, str] | None = None) -> Study:
    plan = wanted(rounds, seed)
    study._draw(plan, list(LOADS), LOADS if loads is None else loads, [""])
    return plan


def test_every_round_runs_every_arm_once_in_an_order_by_seed() -> None:
    plan = begin(rounds=20)
    assert Counter(plan.arms.values()) == {"scenario1": 2, "scenario2": 2, "scenario4": 1}
    assert all(sorted(block) == sorted(plan.arms) for block in plan.blocks)
    # Interleaved at random: no arm always first, no two rounds bound to be alike.
    assert len({tuple(block) for block in plan.blocks}) > 10
    assert set(begin(loads={}).arms.values()) == set(LOADS)
    assert len(begin(loads={}).arms) == 3
    first, again = begin(seed=7), begin(seed=7)
    assert (first.arms, first.blocks) == (again.arms, again.blocks)
    # An arm's name does not show which it is.
    names = {tuple(sorted(a for a, s in begin(seed=k).arms.items() if s == "scenario1")) for k in range(40)}
    assert len(names) > 5


def test_another_study_is_a_new_one(tmp_path: Path) -> None:
    plan = begin(rounds=2)
    plan.write(tmp_path)
    assert study._unfinished(tmp_path, wanted(rounds=2, seed=8), any_seed=True) is not None
    others: list[dict[str, Any]] = [{"names": ["stress-no-arduino"]}, {"rounds": 3}, {"seed": 8}, {"options": {}}]
    for changes in (*others, {"where": {**WHERE, "boot": "another"}}):
        assert study._unfinished(tmp_path, wanted(**{"rounds": 2, **changes}), any_seed=False) is None
    # One that is whole is not gone on with.
    plan.runs = [{"block": block, "arm": arm, "run_id": "r", "valid": True} for block, arm in plan.left]
    plan.write(tmp_path)
    assert study._unfinished(tmp_path, wanted(2), any_seed=True) is None


def test_a_claim_stands_for_the_scenarios_that_it_compares() -> None:
    def compared(*names: str) -> list[str]:
        return [one.run_name for one in study._compared(ROOT, names)]

    assert compared("stress", "scenario2", "scenario4") == ["scenario1", "scenario2", "scenario4"]
    assert compared("balance-stress") == ["balance-scenario1", "balance-scenario2"]
    assert len(compared("all")) == 9


def test_a_study_of_brokers_runs_each_scenario_with_each_broker() -> None:
    loads = {"scenario1": "none", "scenario5": "stress"}
    plan = wanted(rounds=4)
    study._draw(plan, list(loads), loads, ["mosquitto", "mochi"])
    runs = Counter((plan.arms[arm], plan.variants[arm]) for _, arm in plan.left)
    # The A/A arms are the first broker's.
    assert runs == {(name, broker): count for name in loads for broker, count in (("mosquitto", 8), ("mochi", 4))}
    assert "Compared: scenario1, scenario5; each with mochi, mosquitto." in study._summary(plan, 60, "")
    assert begin().variants == {}


def test_runs_of_one_broker_share_a_session() -> None:
    asked: list[tuple[str, list[str]]] = []

    def session(broker: str) -> Any:
        return SimpleNamespace(run=lambda names, _after: asked.append((broker, names)) or broker != "stopped")

    sessions = {broker: session(broker) for broker in ("a", "b", "stopped")}
    assert study._all_run(sessions, zip("aaba", "wxyz", strict=True), print)  # type: ignore[arg-type]
    assert asked == [("a", ["w", "x"]), ("b", ["y"]), ("a", ["z"])]
    assert not study._all_run(sessions, [("stopped", "w"), ("a", "x")], print)  # type: ignore[list-item]
    assert asked[-1] == ("stopped", ["w"])


def planned(monkeypatch: pytest.MonkeyPatch, name: str, **given: str) -> Study:
    """Return the plan of a quick study; nothing is run."""
    begun: list[Study] = []
    monkeypatch.setattr(study, "RunSession", lambda _lab: SimpleNamespace(facts={"code": "abc"}))
    monkeypatch.setattr(study, "read_studies", lambda _results: [])
    monkeypatch.setattr(study, "ask_inside", lambda *_words: "")
    monkeypatch.setattr(study, "_run", lambda _sessions, plan, *_more: begun.append(plan) or 0)
    monkeypatch.setattr(Study, "write", lambda _plan, _results: None)
    study.study(ROOT, [name], rounds=5, seed=1, as_json=False, allow_invalid=False, quick=True, **given)
    (plan,) = begun
    return plan


@pytest.mark.parametrize(
    ("name", "given", "messages"),
    [("stress", {}, "300"), ("stress", {"MESSAGES": "50"}, "50"), ("robot-third", {}, "100")],
)
def test_a_quick_study_under_stress_takes_more_messages(
    monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, str], messages: str
) -> None:
    """Both sides take as many: runs that differ in more than the load are not compared."""
    plan = planned(monkeypatch, name, **given)
    assert plan.options["MESSAGES"] == messages
    assert plan.loads == {one: "stress" if one == "scenario2" else "none" for one in plan.cells}
    assert plan.cells["scenario1"] == [[20.0, 0]]


@pytest.mark.parametrize(
    "name", ["qos-delay", "twin", "twin-brokers", "persistence-low-impact", "asip", "middleware", "middleware-nodes"]
)
def test_every_source_has_studies(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Claims on one scenario count its runs; a second arm of it would be a second run a round."""
    plan = planned(monkeypatch, name)
    arms = {("twin", "off"), ("twin", "on")} if name == "persistence-low-impact" else {(name, "")}
    assert {(scenario, plan.variants.get(arm, "")) for arm, scenario in plan.arms.items()} == arms
    assert len(plan.left) == 5 * len(arms)
    assert plan.rules
    assert any(name in one.studies for one in EXPERIMENTS.values()), "its help names it"


PAIR = {"scenario1": "none", "scenario2": "stress"}
BOTH_TWICE = ("scenario1", "scenario1", "scenario2", "scenario2")
O_MEAN = ("O_us", "avg")


def plan(rounds: int, *scenarios: str, name: str = "stress") -> Study:
    arms = dict(zip("abcdef", scenarios, strict=False))
    cells: dict[str, list[list[Any]]] = {one: [[20.0, 0]] for one in scenarios}
    options = {"FIDELITY": "thesis"}
    return Study("s", [name], 1, rounds, arms, [list(arms)] * rounds, options, {}, loads=PAIR, cells=cells)


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


@pytest.mark.parametrize(("rounds", "change"), [(5, 0.57), (9, 0.57), (9, 0.0)])
def test_the_chance_is_that_of_studies_of_known_truth(rounds: int, change: float) -> None:
    """Runs of a round differ by 13 and 31 %, rounds by more; within 10 points, as it promises."""
    sds = (0.13, 0.31)
    (effect,) = (one.effect({name: [(20.0, 0)] for name in PAIR}) for one in claims() if one.name == "stress")
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
    longer = run_sds(tmp_path, replace(both, messages=dict.fromkeys(PAIR, 300)), O_MEAN)
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
    assert "were not stored" in " ".join(shown(tmp_path).verdict("stress").notes)
    plan.rules = digest_of_rules(loop.folder)
    plan.write(tmp_path)
    assert "rules" not in " ".join(shown(tmp_path).verdict("stress").notes)
    plan.rules, plan.words = "of before", {"stress": {"thesis": UNDECIDED}}
    plan.write(tmp_path)
    said = shown(tmp_path).verdict("stress")
    assert "It is judged by other rules than were planned, by which it was: undecided." in " ".join(said.notes)
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
        for scenario in PAIR:
            cells = {(20.0, 0): simulated_cell(np.random.default_rng(number), 3, 20, 9000, 4290)}
            write_run(tmp_path, scenario, start=f"20260102T00{number:02}00Z", cells=cells)
    done = write_study(tmp_path)
    left = replace(done, study="20260101T000000Z-left", runs=done.runs[:3], blocks=done.blocks * 2)
    left.write(tmp_path)
    replace(left, study="20260101T000000Z-other", arms={"a": "scenario4"}).write(tmp_path)
    text = " ".join(shown(tmp_path).verdict("stress").notes)
    assert "It is study 2 of 2 of this claim here. One was left after 2 rounds." in text
