"""The commands of plans and handouts can give every point, and no wrong answer gets one."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.exercise_runs import fill_form, make_runs, readings, wrong_answers
from support.handouts import HANDOUTS, commands, exercise_of, name_of
from support.places import ROOT

from looplab.exercises.marking import ANSWER, mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import read_run
from looplab.run.life import run_table

Printed = Callable[..., str]
BY_NAME = {name_of(handout): handout for handout in HANDOUTS}
SCENARIOS = [name for name in BY_NAME if re.fullmatch(r"scenario\d", name)]
ROWS = re.findall(r"^\| (\d+|a day) \|(.*)\|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)


def run_commands(name: str) -> list[str]:
    return [command for command in commands(BY_NAME[name]) if re.search(r"\./lab (run|study)\b", command)]


def steps(plan: str) -> list[tuple[list[str], list[str]]]:
    """Return the steps of a plan: commands that run, and the exercises that are done with them."""
    found = []
    for step in plan.split(";"):
        names = re.findall(r"/([\w-]+)/README\.md", step) or (SCENARIOS if "all nine scenarios" in step else [])
        ordered = re.findall(r"`([^`]*\./lab run [^`]+)`", step)
        options = "".join(f" {option}" for option in re.findall(r"`(--[^`]+)`", step))
        by_handout = [([command + options for command in run_commands(name)], [name]) for name in names]
        found += [(ordered, names)] if ordered else by_handout
    return found


def do(lab: Path, printed: Printed, ordered: list[str], names: list[str]) -> None:
    """Make the runs, then fill and check each form."""
    exercises = [exercise_of(BY_NAME[name]) for name in names]
    made = make_runs(lab / "results", *ordered, exercises=exercises)
    for exercise in exercises:
        fill_form(lab, exercise, made)
        all_points(printed, exercise.name)


def all_points(printed: Printed, name: str) -> None:
    total = exercise_of(BY_NAME[name]).total
    assert f"score: {total} of {total}\n" in printed(0, name)


@pytest.mark.parametrize(("minutes", "before", "lesson"), ROWS, ids=[row[0] for row in ROWS])
def test_every_exercise_of_a_plan_can_give_all_its_points(
    lab: Path, printed: Printed, minutes: str, before: str, lesson: str
) -> None:
    planned = steps(f"{before};{lesson}")
    assert planned, minutes
    for ordered, names in planned:
        do(lab, printed, ordered, names)
    for _, names in planned:
        for name in names:
            all_points(printed, name)


def test_the_handouts_in_their_order_leave_every_earlier_score(lab: Path, printed: Printed) -> None:
    """Each handout runs its predecessor again, some with another fidelity."""
    for at, name in enumerate(SCENARIOS):
        do(lab, printed, run_commands(name), [name])
        for command in exercise_of(BY_NAME[name]).card.reruns:
            make_runs(lab / "results", command)
        for earlier in SCENARIOS[max(0, at - 1) : at + 1]:
            all_points(printed, earlier)
    for name in SCENARIOS:
        all_points(printed, name)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_handout_gives_all_points_to_right_answers_and_none_to_wrong_ones(
    lab: Path, printed: Printed, name: str
) -> None:
    """What runs show needs no answer, and any prediction has its point."""
    exercise = exercise_of(BY_NAME[name])
    do(lab, printed, run_commands(name), [name])
    runs = [read_run(folder, EXPERIMENTS) for folder in (lab / "results").iterdir()]
    right = yaml.safe_load((lab / f"answers/{name}.yaml").read_text())
    wrong = {one.name: wrong_answers(one, right[one.name]) for one in exercise.questions if not one.predicts}
    for at in range(max(map(len, wrong.values()))):
        marked = mark(exercise, runs, {**right, **{question: all_[at % len(all_)] for question, all_ in wrong.items()}})
        scored = [one for one in marked.marks if one.name in wrong and one.kind == ANSWER and one.got]
        assert scored == []


@pytest.mark.parametrize("name", BY_NAME)
def test_each_figure_that_is_asked_stands_in_what_lab_show_prints(lab: Path, name: str) -> None:
    exercise = exercise_of(BY_NAME[name])
    made = make_runs(lab / "results", *run_commands(name), exercises=[exercise])
    documents = [json.loads((folder / "run.json").read_text()) for folder in made]
    shown = "".join(run_table(EXPERIMENTS.of(document), document) for document in documents)
    assert [
        figure for figure, texts in readings(exercise, made).items() if not any(text in shown for text in texts)
    ] == []
