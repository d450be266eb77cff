"""The commands of plans and handouts can give every point, and no wrong answer gets one."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from exercise_runs import fill_form, readings, wrong_answers
from support.handouts import HANDOUTS, commands, exercise_of, name_of
from support.places import ROOT
from support.spec_runs import make_runs

from looplab.exercises.marking import ANSWER, mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import read_run
from looplab.run.life import run_table

Printed = Callable[..., str]
BY_NAME = {name_of(handout): handout for handout in HANDOUTS}
SCENARIOS = [name for name in BY_NAME if re.fullmatch(r"scenario\d", name)]
PLANS = re.findall(r"^\| (?:\d+|a day) \|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
# The steps of plans whose runs are those of several exercises.
SHARED = [step for plan in PLANS for step in re.split("[;|]", plan) if "./lab run " in step]


def do(lab: Path, printed: Printed, ordered: list[str], names: list[str]) -> list[Path]:
    """Make the runs, then fill and check each form."""
    exercises = [exercise_of(BY_NAME[name]) for name in names]
    made = make_runs(lab / "results", *ordered, exercises=exercises)
    for exercise in exercises:
        fill_form(lab, exercise, made)
        assert f"score: {exercise.total} of {exercise.total}\n" in printed(0, exercise.name)
    return made


@pytest.mark.parametrize("step", SHARED, ids=range(len(SHARED)))
def test_runs_of_a_plan_give_all_points_of_each_exercise(lab: Path, printed: Printed, step: str) -> None:
    ordered = re.findall(r"`([^`]*\./lab run [^`]+)`", step)
    do(lab, printed, ordered, re.findall(r"/([\w-]+)/README\.md", step) or SCENARIOS)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_handout_gives_all_points_to_right_answers_and_none_to_wrong_ones(
    lab: Path, printed: Printed, name: str
) -> None:
    """What runs show needs no answer, any prediction has its point, and `./lab show` prints each figure asked."""
    exercise = exercise_of(BY_NAME[name])
    ordered = [command for command in commands(BY_NAME[name]) if re.search(r"\./lab (run|study)\b", command)]
    made = do(lab, printed, ordered, [name])
    runs = [read_run(folder, EXPERIMENTS) for folder in made]
    right = yaml.safe_load((lab / f"answers/{name}.yaml").read_text())
    wrong = {one.name: wrong_answers(one, right[one.name]) for one in exercise.questions if not one.predicts}
    for at in range(max(map(len, wrong.values()))):
        marked = mark(exercise, runs, {**right, **{question: all_[at % len(all_)] for question, all_ in wrong.items()}})
        scored = [one for one in marked.marks if one.name in wrong and one.kind == ANSWER and one.got]
        assert scored == []
    documents = [json.loads((folder / "run.json").read_text()) for folder in made]
    shown = "".join(run_table(EXPERIMENTS.of(document), document) for document in documents)
    read = readings(exercise, made)
    assert [figure for figure, texts in read.items() if not any(text in shown for text in texts)] == []
