"""The commands on a page, given to `./lab` again, ask for the very runs that the page shows."""

import json
from pathlib import Path
from typing import Any

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
    experiment = EXPERIMENTS.of(document)
    return StoredRun(Path("20260101T000000Z"), document, experiment.name, experiment.part("report").LAYOUT)


def asked_again(run: StoredRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters that the command of this run asks for, and the command's arguments."""
    (command,) = run_commands(EXPERIMENTS[run.experiment], [Measured(run, {})])
    given = vars(parser().parse_args(command.split()[1:]))
    own = EXPERIMENTS[run.experiment].part("parameters")
    options = {option.variable: given[option.variable] for option in own.OPTIONS}
    variables = run_options.variables(ROOT, given["scenarios"], options, quick=given["quick"])
    asked = own.read_parameters({"SCENARIO": run.scenario, **variables}).as_json()
    return json.loads(json.dumps(asked)), given


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.json")))
def test_a_command_gives_a_run_its_parameters(name: str) -> None:
    run = stored(name)
    asked, _ = asked_again(run)
    options = [option.parameter for option in EXPERIMENTS[run.experiment].part("parameters").OPTIONS]
    known = [option for option in options if option in run.parameters]
    assert len(known) >= 3
    assert {option: asked[option] for option in known} == {option: run.parameters[option] for option in known}


def test_lists_and_pairs_are_written_as_options_take_them() -> None:
    assert asked_again(stored("loop", intervals_ms=[100, 20], qos=[0, 2]))[0]["intervals_ms"] == [100, 20]
    assert asked_again(stored("qos-delay", pairs_ms=[[0, 20], [2, 18]]))[0]["pairs_ms"] == [[0, 20], [2, 18]]
    assert asked_again(stored("twin", write_modes=["row", "copy"]))[0]["write_modes"] == ["row", "copy"]


def test_a_quick_run_is_repeated_as_one() -> None:
    """Its warm-up has no option."""
    asked, given = asked_again(stored("middleware", warm_up_s=4))
    assert (asked["warm_up_s"], given["quick"]) == (4, True)
    asked, given = asked_again(stored("middleware", warm_up_s=10, seconds=60, messages=60))
    assert (asked["warm_up_s"], given["quick"]) == (10, False)


def test_scenarios_of_the_same_options_share_a_command_and_rounds_are_counted() -> None:
    one, other = Measured(stored("loop"), {}), Measured(stored("loop"), {})
    several = Measured(one.run, {}, (one, other))
    loop = EXPERIMENTS["loop"]
    assert len(run_commands(loop, [one, other])) == 1
    assert "scenario1 scenario1 --intervals" in run_commands(loop, [one, other])[0]
    assert "scenario1 --rounds 2 --intervals" in run_commands(loop, [several])[0]
