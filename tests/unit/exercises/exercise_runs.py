"""The right form for runs that commands of a handout or plan made, and wrong answers beside it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import yaml
from support.places import ROOT
from support.spec_runs import make_runs, newest_place, read

from looplab.exercises.exercise import Exercise, Question, Value, read_exercise
from looplab.experiments.registry import EXPERIMENTS

# What `./lab check` prints, by the code that it must end with and its words.
Printed = Callable[..., str]
PAIR = "./lab run scenario1 scenario2 --intervals 20 --repetitions 3"


def runs_of_form(exercise: Exercise, made: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return by handle the `run.json` of the newest of `made` that fits."""
    documents = [json.loads((folder / "run.json").read_text()) for folder in made]
    parameters = [one["parameters"] for one in documents]
    return {wanted.handle: documents[newest_place(wanted, parameters)] for wanted in exercise.runs}


def figure_of(runs: Mapping[str, Mapping[str, Any]], value: Value) -> float:
    """Return a figure of the run that it is of, NaN without its cell."""
    entries = (one for one in runs[value.run]["cells"] if type(value.cell)(one).key == value.cell.key)
    return next((read(value, one) for one in entries), nan)


def fill_form(root: Path, exercise: Exercise, made: Sequence[Path]) -> None:
    """Write the right answers into a new form, as `./lab show` prints the newest of `made` that fits each run."""
    runs = runs_of_form(exercise, made)
    figure = partial(figure_of, runs)

    def answer(question: Question) -> str | float:
        if value := question.figure:
            return round(figure(value) / (figure(value.over) if value.over else 1), value.digits)
        if question.found:
            what, run = question.found.what, runs[question.found.run]
            state = next(one["found"] for one in run["treatments"] if one["what"] == what)
            return next(key for key, option in question.options.items() if option == state)
        largest = {option: figure(one) for option, one in question.largest.items()}
        return question.right or max(question.options, key=lambda option: largest.get(option, -inf))

    form = root / f"answers/{exercise.name}.yaml"
    form.parent.mkdir(exist_ok=True)
    form.write_text(yaml.safe_dump({question.name: answer(question) for question in exercise.questions}))


def wrong_answers(question: Question, right: str | float) -> list[str | float]:
    """Return answers that no run makes right: a third too large or too small, another unit, another option."""
    if not question.figure:
        return [option for option in question.options if option != right]
    figure, last = float(right), 10.0**-question.figure.digits
    return [1.3 * figure + last, 0.7 * figure - last, 1000 * figure + last]


def readings(exercise: Exercise, made: Sequence[Path]) -> dict[str, set[str]]:
    """Return what a table may print of each figure that a question asks about."""
    runs = runs_of_form(exercise, made)
    asked = [v for q in exercise.questions for v in (q.figure, q.figure and q.figure.over, *q.largest.values()) if v]
    digits = {str(value): (figure_of(runs, value), replace(value, over=None).digits) for value in asked}
    return {name: {f"{figure:.{places}f}", f"{figure:.1%}"} for name, (figure, places) in digits.items()}


def did(root: Path, name: str, command: str) -> list[str]:
    """Make the runs of a command and fill the form by them; return the ids."""
    exercise = read_exercise(ROOT, name, EXPERIMENTS)
    made = make_runs(root / "results", command, exercises=[exercise])
    fill_form(root, exercise, made)
    return [folder.name for folder in made]
