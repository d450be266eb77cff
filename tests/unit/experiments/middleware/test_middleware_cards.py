"""The cards of the middleware: a sound run gets every point, one that shows something else loses it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.simulated_middleware_runs import write_middleware_run

from looplab.exercises.exercise import Exercise, read_exercise
from looplab.exercises.marking import Marked, mark
from looplab.experiments.middleware import LoadCell
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.samples import read_cells
from looplab.report.stored import StoredRun, read_run

CELLS = {
    "middleware": [LoadCell.keyed(box, False, 1, 1, n) for box in (False, True) for n in (50, 100)],
    "middleware-nodes": [
        LoadCell.keyed(True, balancer, nodes, 1, n)
        for balancer, nodes in ((False, 1), (True, 1), (True, 2))
        for n in (50, 100)
    ],
}


def marked(results: Path, name: str, **more: Any) -> Marked:
    """Return the marks of one run and of answers that were read off it."""
    folder = write_middleware_run(results, name, cells=CELLS[name], repetitions=3, **more)
    exercise, run = read_exercise(ROOT, name, EXPERIMENTS), read_run(folder, EXPERIMENTS)
    assert isinstance(run, StoredRun)
    return mark(exercise, [run], answers(exercise, run))


def answers(exercise: Exercise, run: StoredRun) -> dict[str, Any]:
    cells: Any = read_cells(run)
    found: dict[str, Any] = {}
    for question in exercise.questions:
        if question.predicts:
            found[question.name] = "a"
        elif question.figure:
            right = cells[question.figure.cell.key].figure(question.figure.name)
            found[question.name] = f"{right / 1000:.3f} ms" if question.unit == "ms" else f"{right:.0f}"
        else:
            figures = {option: cells[value.cell.key].figure(value.name) for option, value in question.largest.items()}
            found[question.name] = max(figures, key=lambda option: figures[option])
    return found


@pytest.mark.parametrize("name", CELLS)
def test_a_sound_run_gets_every_point(tmp_path: Path, name: str) -> None:
    found = marked(tmp_path, name)
    assert [one.reason for one in found.marks if one.got < one.worth] == []
    assert found.worth == 10


@pytest.mark.parametrize(
    ("name", "slower", "lost"),
    [
        ("middleware", lambda cell: 2.0 if cell.container else 1.0, "cost"),
        ("middleware-nodes", lambda cell: 2.0 if cell.balancer else 1.0, "balancer"),
    ],
)
def test_a_cost_that_is_there_loses_the_point(
    tmp_path: Path, name: str, slower: Callable[[LoadCell], float], lost: str
) -> None:
    found = marked(tmp_path, name, slower=slower)
    assert [one.name for one in found.marks if one.got < one.worth] == [lost]
