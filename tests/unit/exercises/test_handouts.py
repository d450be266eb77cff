"""Handouts: what they name is there, what they tell to type can be typed."""

import json
from functools import cache
from pathlib import Path

import pytest
from support.handouts import HANDOUTS, commands, exercise_of, name_of, observed, runs_of, words_of
from support.places import ROOT

from looplab.exercises.exercise import Exercise, WantedRun
from looplab.experiments.loop.parameters import read_parameters
from looplab.lab.cli import parser
from looplab.lab.image_names import STAND_INS
from looplab.spec.parameters import RunParameters


@cache
def dashboards() -> dict[str, set[str]]:
    """Titles of the panels of each dashboard, as they are read: with the values of its variables."""
    shown = {}
    for path in (ROOT / "grafana/dashboards").glob("*.json"):
        dashboard = json.loads(path.read_text())
        names = {panel.get("title", "") for panel in dashboard["panels"]}
        for variable in dashboard["templating"]["list"]:
            name = f"${variable['name']}"
            choices = [*variable.get("options", []), variable.get("current", {})]
            texts = [one["text"] for one in choices if isinstance(one.get("text"), str)]
            names |= {title.replace(name, text) for title in names for text in texts}
        shown[dashboard["title"]] = {title for title in names if "$" not in title}
    return shown


def test_the_task_of_priority_names_a_broker_with_chrt() -> None:
    """Upstream's image has no chrt; the lab builds the one of this name, even where a registry answers."""
    page = (ROOT / "docs/exercises/give-the-broker-priority/README.md").read_text(encoding="utf-8")
    assert f"MOSQUITTO_IMAGE={STAND_INS['eclipse-mosquitto']}\n" in page


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_commands_are_ones_of_the_lab(handout: Path) -> None:
    wanted = {run.scenario for run in exercise_of(handout).runs}
    ran = set()
    for command in commands(handout):
        variables, words = words_of(command)
        options = parser().parse_args(words)
        read_parameters({"SCENARIO": "x", **variables})
        if options.command in ("run", "study"):
            ran |= set(options.names if options.command == "study" else options.scenarios)
        if options.command == "check":
            assert options.names == [name_of(handout)]
    # What the exercise wants to see is what the handout lets a student run.
    assert ran == wanted
    assert [words_of(command)[1][0] for command in commands(handout)][-4:] == ["check", "report", "hand-in", "down"]


def serves(made: RunParameters, wanted: WantedRun, exercise: Exercise) -> bool:
    """Whether such a run counts as `wanted`, and has the cells that points and questions look at."""
    stored = json.loads(json.dumps(made.as_json()))
    return (
        made.scenario == wanted.scenario
        and wanted.fidelity in ("", made.fidelity)
        and all(stored[name] == value for name, value in wanted.parameters.items())
        and exercise.keys_of(wanted.handle) <= {cell.key for cell in made.cells}
        and made.repetitions >= exercise.repetitions
        and made.messages >= exercise.messages
    )


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_runs_to_make_are_those_that_count(handout: Path) -> None:
    exercise = exercise_of(handout)
    made = [parameters for command in commands(handout) for parameters in runs_of(command)]
    for wanted in exercise.runs:
        assert any(serves(parameters, wanted, exercise) for parameters in made), wanted
    assert all(any(serves(parameters, wanted, exercise) for wanted in exercise.runs) for parameters in made)


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_panels_to_observe_are_on_their_dashboard(handout: Path) -> None:
    first, *names = observed(handout)
    panels = dashboards()[first]
    assert names
    for name in names:
        if name in dashboards():
            panels = dashboards()[name]
        else:
            assert any(title == name or title.startswith(f"{name}:") for title in panels), name
