"""./lab list, in 80 columns; ./lab inspect has real parts: tests/e2e/test_e2e_look_inside.py."""

import pytest
from support.places import ROOT

from looplab.errors import EXIT_GOOD
from looplab.exercises.exercise import exercises, read_exercise
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands.list_all import list_all


def test_the_list_has_everything_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_all(ROOT) == EXIT_GOOD
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    # A name is what a person types: it is never broken.
    listed = {line.split()[0]: line.split() for line in lines if line}
    for name in exercises(ROOT):
        assert str(read_exercise(ROOT, name, EXPERIMENTS).card.minutes) in listed[name]
    # Its load, its time, and what comes before it.
    assert listed["scenario4"][-3:] == ["stress", "37", "scenario2"]
    assert listed["twin-limit"][-3:] == ["-", "30", "twin"]
