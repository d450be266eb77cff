"""The commands of the plans and of the scenarios' handouts can give every point."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.exercise_runs import LIKE, fill_form, make_runs
from support.handouts import HANDOUTS, commands, exercise_of, name_of
from support.places import ROOT

from looplab.exercises.exercise import Question

Printed = Callable[..., str]
BY_NAME = {name_of(handout): handout for handout in HANDOUTS}
SCENARIOS = [name for name in BY_NAME if re.fullmatch(r"scenario\d", name)]
ROWS = re.findall(r"^\| (\d+|a day) \|(.*)\|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)


# Waits on run queues and stamps of printed clients are not simulated.
REAL = ("who-stalled-the-controller", "who-stamps-late")
SIMULATED = [
    name
    for name, handout in BY_NAME.items()
    if name not in REAL and set(LIKE) >= {wanted.scenario for wanted in exercise_of(handout).runs}
]


def run_commands(name: str) -> list[str]:
    return [command for command in commands(BY_NAME[name]) if re.search(r"\./lab run\b", command)]


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
    made = [folder for command in ordered for folder in make_runs(lab / "results", command)]
    for name in names:
        fill_form(lab, exercise_of(BY_NAME[name]), made)
        all_points(printed, name)


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
        for earlier in SCENARIOS[: at + 1]:
            all_points(printed, earlier)


def wrong(question: Question, right: object) -> object:
    """Return an answer that no run makes right: three times the figure, or another option."""
    if question.figure:
        return 3 * float(str(right)) + 1
    return next(option for option in question.options if option != right)


@pytest.mark.parametrize("name", SIMULATED)
def test_a_handout_gives_all_points_to_right_answers_and_none_to_wrong_ones(
    lab: Path, printed: Printed, name: str
) -> None:
    exercise = exercise_of(BY_NAME[name])
    do(
        lab,
        printed,
        [command for command in commands(BY_NAME[name]) if re.search(r"\./lab (run|study)\b", command)],
        [name],
    )
    form = lab / f"answers/{name}.yaml"
    answers = yaml.safe_load(form.read_text())
    asked = [question for question in exercise.questions if not question.predicts]
    form.write_text(yaml.safe_dump({**answers, **{one.name: wrong(one, answers[one.name]) for one in asked}}))
    text = printed(1, name)
    assert all(f"0/{one.worth}  {one.name}: " in text for one in asked), text
