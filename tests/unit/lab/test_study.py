"""Studies: order by seed, A/A arms, resuming, what they can find; without an engine."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands import study
from looplab.report.study_file import Study

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


def test_every_round_runs_every_arm_once() -> None:
    plan = begin(rounds=20)
    assert Counter(plan.arms.values()) == {"scenario1": 2, "scenario2": 2, "scenario4": 1}
    assert all(sorted(block) == sorted(plan.arms) for block in plan.blocks)
    # Interleaved at random: no arm always first, no two rounds bound to be alike.
    assert len({tuple(block) for block in plan.blocks}) > 10
    assert set(begin(loads={}).arms.values()) == set(LOADS)
    assert len(begin(loads={}).arms) == 3


def test_a_seed_gives_one_study_and_an_arms_name_does_not_show_which_it_is() -> None:
    first, again = begin(seed=7), begin(seed=7)
    assert (first.arms, first.blocks) == (again.arms, again.blocks)
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
    assert study._scenarios_of(ROOT, ["stress", "scenario2", "scenario4"]) == ["scenario1", "scenario2", "scenario4"]
    assert study._scenarios_of(ROOT, ["balance-stress"]) == ["balance-scenario1", "balance-scenario2"]
    assert len(study._scenarios_of(ROOT, ["all"])) == 9


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
    ("name", "arms"),
    [
        ("qos-delay", {("qos-delay", "")}),
        ("twin", {("twin", "")}),
        ("twin-brokers", {("twin-brokers", "")}),
        ("persistence-low-impact", {("twin", "off"), ("twin", "on")}),
        ("asip", {("asip", "")}),
        ("middleware", {("middleware", "")}),
        ("middleware-nodes", {("middleware-nodes", "")}),
    ],
)
def test_every_source_has_studies(monkeypatch: pytest.MonkeyPatch, name: str, arms: set[tuple[str, str]]) -> None:
    """Claims on one scenario count its runs; a second arm of it would be a second run a round."""
    plan = planned(monkeypatch, name)
    assert {(scenario, plan.variants.get(arm, "")) for arm, scenario in plan.arms.items()} == arms
    assert len(plan.left) == 5 * len(arms)
    assert plan.rules
    assert any(name in one.studies for one in EXPERIMENTS.values()), "its help names it"
