"""The commands on a page, given to `./lab` again, ask for the very runs that the page shows."""

import json
from pathlib import Path

import pytest
from support.places import ROOT
from support.simulated_runs import MACHINE

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab import run_options
from looplab.lab.cli import parser
from looplab.report.repeat import run_commands
from looplab.report.samples import Measured
from looplab.report.stored import StoredRun

SAMPLES = ROOT / "docs/exercises/samples"


def stored(name: str, **changes: object) -> StoredRun:
    document = json.loads((SAMPLES / f"{name}.json").read_text())
    document["parameters"] |= changes
    document["environment"] = MACHINE
    return StoredRun(Path("20260101T000000Z"), document, name, EXPERIMENTS[name].part("report").LAYOUT)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("loop", {"intervals_ms": [100, 20], "qos": [0, 2]}),
        ("qos-delay", {"pairs_ms": [[0, 20], [2, 18]]}),
        ("twin", {"write_modes": ["row", "copy"], "iterations": 3}),
    ],
)
def test_a_command_gives_a_run_its_parameters(name: str, changes: dict[str, object]) -> None:
    run = stored(name, **changes)
    (command,) = run_commands(EXPERIMENTS[name], [Measured(run, {})])
    given = vars(parser().parse_args(command.split()[1:]))
    own = EXPERIMENTS[name].part("parameters")
    options = {option.variable: given[option.variable] for option in own.OPTIONS}
    variables = run_options.variables(ROOT, given["scenarios"], options, quick=False)
    asked = own.read_parameters({"SCENARIO": run.scenario, **variables}).as_json()
    for key in (option.parameter for option in own.OPTIONS):
        if key in run.parameters:
            assert json.loads(json.dumps(asked[key])) == run.parameters[key], key
    assert asked.get("pairs_ms") == (((0, 20), (2, 18)) if name == "qos-delay" else None)


def test_scenarios_of_the_same_options_share_a_command_and_rounds_are_counted() -> None:
    one, other = Measured(stored("loop"), {}), Measured(stored("loop"), {})
    several = Measured(one.run, {}, (one, other))
    loop = EXPERIMENTS["loop"]
    assert len(run_commands(loop, [one, other])) == 1
    assert "scenario1 scenario1 --intervals" in run_commands(loop, [one, other])[0]
    assert "scenario1 --rounds 2 --intervals" in run_commands(loop, [several])[0]
