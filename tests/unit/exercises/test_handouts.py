"""Handouts: what they name is there, what they tell to type can be typed."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.handouts import HANDOUTS, commands, exercise_of, name_of, panels, runs_of, words_of
from support.places import ROOT

from looplab.exercises.exercise import Exercise, WantedRun
from looplab.experiments.loop.parameters import read_parameters
from looplab.lab.cli import parser
from looplab.spec.parameters import RunParameters


@cache
def titles() -> set[str]:
    """Titles of all dashboards and panels."""
    names: set[str] = set()

    def walk(panel_list: list[dict[str, Any]]) -> None:
        for panel in panel_list:
            names.add(panel.get("title", ""))
            walk(panel.get("panels", []))

    for path in (ROOT / "grafana/dashboards").glob("*.json"):
        dashboard = json.loads(path.read_text())
        names.add(dashboard["title"])
        walk(dashboard["panels"])
        for variable in dashboard["templating"]["list"]:
            names |= {
                title.replace(f"${variable['name']}", option["text"])
                for title in names
                for option in variable.get("options", [])
            }
    # As they are read: with the values of their variables.
    return {title for title in names if "$" not in title}


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_commands_are_ones_of_the_lab(handout: Path) -> None:
    wanted = {run.scenario for run in exercise_of(handout).runs}
    ran = set()
    for command in commands(handout):
        variables, words = words_of(command)
        options = parser().parse_args(words)
        read_parameters({"SCENARIO": "x", **variables})
        if options.command == "run":
            ran |= set(options.scenarios)
        if options.command == "check":
            assert options.names == [name_of(handout)]
    # What the exercise wants to see is what the handout lets a student run.
    assert ran == wanted
    assert [words_of(command)[1][0] for command in commands(handout)][-3:] == ["check", "report", "down"]


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
def test_the_panels_to_observe_are_there(handout: Path) -> None:
    known = titles()
    named = panels(handout)
    assert named
    for title in named:
        assert any(there == title or there.startswith(f"{title}:") for there in known), title
