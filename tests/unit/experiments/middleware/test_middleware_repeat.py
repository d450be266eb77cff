"""The command that the report gives to repeat a run of the middleware makes the same cells."""

import shlex
from pathlib import Path

import pytest
from support.handouts import runs_of
from support.reports import shown
from support.simulated_middleware_runs import write_middleware_run

from looplab.experiments.middleware.cells import Cell
from looplab.experiments.middleware.parameters import read_parameters
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.repeat import run_commands


@pytest.mark.parametrize(
    "asked",
    [
        {"SCENARIO": "middleware", "CORES": "1", "WHERE": "bare", "DEVICES": "30 60", "LOAD_S": "20"},
        {"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1-direct 2x1", "DEVICES": "30", "REPETITIONS": "2"},
    ],
)
def test_the_command_of_a_run_makes_its_cells(tmp_path: Path, asked: dict[str, str]) -> None:
    wanted = read_parameters(asked)
    write_middleware_run(
        tmp_path,
        asked["SCENARIO"],
        cells=[Cell(True, False, 1, 1, 30)],
        repetitions=1,
        changes={"parameters": wanted.as_json()},
    )
    [command] = run_commands(EXPERIMENTS["middleware"], shown(tmp_path, "middleware").measured)
    assert shlex.split(command)[:3] == ["./lab", "run", asked["SCENARIO"]]
    [made] = runs_of(command)
    assert made.cells == wanted.cells
    assert made == wanted
