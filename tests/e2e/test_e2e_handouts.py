"""What the handouts tell a student to type is typed, with fewer messages, and leads where they say."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from support.e2e_lab import Lab, finished
from support.handouts import HANDOUTS, commands, name_of

from looplab.exercises.exercise import experiment_of, read_exercise
from looplab.experiments.registry import EXPERIMENTS

# Enough for every check to be judged, little enough for all handouts in a few minutes.
SMALL = {"INTERVALS_MS": "20", "MESSAGES": "20", "REPETITIONS": "3"}
# The handouts differ in names and in what they set for their runs, and end with the same commands (tests/unit/exercises
# checks that): one is typed. LAB_ALL_HANDOUTS=1 has them all typed, which takes 6 minutes more (starting and stopping,
# not sending), and 6 for the sweep of qos-delay.
EXAMPLE = "scenario5"
LONG = pytest.mark.flag("LAB_ALL_HANDOUTS")
TYPED = [pytest.param(one, id=name_of(one), marks=[] if name_of(one) == EXAMPLE else LONG) for one in HANDOUTS]
# A look inside needs a run that goes on: test_e2e_look_inside.py has them.
LOOKS = re.compile(r"\./lab (inspect|setup qos-delay)\b")


@pytest.mark.parametrize("handout", TYPED)
def test_a_handout_from_its_first_command_to_its_last(lab: Lab, handout: Path) -> None:
    lab.forget_runs()
    shutil.rmtree(lab.root / "answers", ignore_errors=True)
    name = name_of(handout)
    exercise = read_exercise(lab.root, name, EXPERIMENTS)
    scores = []
    for command in commands(handout):
        if LOOKS.match(command):
            continue
        # This Python in place of the launcher, which has tests of its own.
        line = command.replace("./lab", f"{sys.executable} -m looplab.lab.cli")
        done = finished(["sh", "-c", line], lab.root, {**lab.environment, **SMALL}, 300)
        if "./lab check" in command:
            assert done.returncode == 1, done.stdout
            scores.append(done.stdout)
        else:
            assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (lab.root / f"answers/{name}.yaml").is_file()
    for wanted in exercise.runs:
        # Priority that this machine refuses makes an invalid run, and the check says so.
        assert f"1/1  {wanted.handle}: " in scores[-1] or "is INVALID" in scores[-1], scores[-1]
    experiment = experiment_of(lab.root, EXPERIMENTS, exercise.runs[-1].scenario)
    page = (lab.root / "report" / experiment.part("report").PAGE).read_text()
    assert all(folder.name in page for folder in lab.runs())
    # The last command is `./lab down`.
    assert lab.containers(running=False) == {}
    assert lab.networks() == []
