"""All pages with generated parts: what scripts/make-handouts writes and a test compares."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from looplab.exercises.exercise import (
    Exercise,
    exercises,
    experiment_of,
    read_exercise,
)
from looplab.exercises.handout import Around, completed, neighbours
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.data_page import PAGE, data_page
from looplab.report.claims import claims
from looplab.run.life import run_table
from looplab.run.table import table_words
from looplab.spec.experiment import Experiment

# A stored run of each experiment, cut to one cell: its table is shown in the handouts. A scenario may have its own.
SAMPLES = Path("docs/exercises/samples")


def generated(root: Path) -> dict[Path, str]:
    """Return what each page with generated parts must hold, by its path."""
    return {**handouts(root), root / PAGE: data_page(root)}


def handouts(root: Path) -> dict[Path, str]:
    """Return what the README of each exercise with a card must hold, by its path."""
    read = partial(read_exercise, root, experiments=EXPERIMENTS)
    known = {name: read(name) for name in exercises(root)}
    with_card = {name: exercise for name, exercise in known.items() if exercise.card.goals}
    places = {name: (exercise.title, exercises(root)[name]) for name, exercise in with_card.items()}
    return {places[name][1] / "README.md": _handout(root, exercise, places) for name, exercise in with_card.items()}


def claim_titles(experiment: str) -> dict[str, str]:
    """Return the titles of the claims that the report of an experiment judges, by their names."""
    return {claim.name: claim.title for claim in claims(EXPERIMENTS[experiment])}


def around(root: Path, exercise: Exercise, places: Mapping[str, tuple[str, Path]]) -> Around:
    """Return what the handout of an exercise needs from elsewhere; `places` gives title and folder of all in order."""
    scenario = exercise.runs[-1].scenario
    experiment = experiment_of(root, EXPERIMENTS, scenario)
    titles = claim_titles(experiment.name)
    before, after = neighbours(places, exercise.name)
    claims = [titles[claim] for claim in exercise.card.claims]
    return Around(before, after, claims, sample_table(root, experiment.name, scenario), *words(experiment, scenario))


def sample_run(root: Path, experiment: str, scenario: str = "") -> dict[str, Any]:
    """Return the stored run whose table the handouts of a scenario show: its own, or that of its experiment."""
    paths = [root / SAMPLES / f"{name}.json" for name in (scenario, experiment)]
    path = next((path for path in paths if path.is_file()), paths[-1])
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def sample_table(root: Path, experiment: str, scenario: str = "") -> str:
    """Return the table of that run as ./lab run prints it."""
    return run_table(EXPERIMENTS[experiment], sample_run(root, experiment, scenario))


def words(experiment: Experiment, scenario: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what the lines or columns of the table mean, and the one that each figure is read from."""
    own = experiment.optional_part("table")
    return (own.MEANINGS, own.LINES) if own else table_words(experiment.table(scenario))


def _handout(root: Path, exercise: Exercise, places: Mapping[str, tuple[str, Path]]) -> str:
    folder = places[exercise.name][1]
    text = (folder / "README.md").read_text(encoding="utf-8")
    return completed(text, folder, exercise, around(root, exercise, places))
