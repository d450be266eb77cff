"""The commands on a page, given to `./lab` again, ask for the very runs that the page shows."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.handouts import runs_of
from support.places import ROOT
from support.simulated_runs import MACHINE

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.repeat import run_commands
from looplab.report.samples import Measured
from looplab.report.stored import NO_MATTER, StoredRun

SAMPLES = ROOT / "docs/exercises/samples"


def stored(name: str, **changes: object) -> StoredRun:
    document = json.loads((SAMPLES / f"{name}.json").read_text())
    document["parameters"] |= json.loads(json.dumps(changes))
    document["environment"] = MACHINE
    experiment = EXPERIMENTS.of(document)
    return StoredRun(Path("20260101T000000Z"), document, experiment.name, experiment.part("report").LAYOUT)


def command_of(run: StoredRun) -> str:
    (command,) = run_commands(EXPERIMENTS[run.experiment], [Measured(run, {})])
    return command


def asked_again(run: StoredRun) -> dict[str, Any]:
    """Return the parameters that the command of this run asks for."""
    (parameters,) = runs_of(command_of(run))
    found: dict[str, Any] = json.loads(json.dumps(parameters.as_json()))
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.json")))
def test_a_command_gives_a_run_its_parameters(name: str) -> None:
    run = stored(name)
    asked = asked_again(run)
    # A sample keeps some of its cells alone; they follow from the other parameters.
    known = [parameter for parameter in run.parameters.keys() & asked.keys() if parameter not in (*NO_MATTER, "cells")]
    assert len(known) >= 10
    assert {option: asked[option] for option in known} == {option: run.parameters[option] for option in known}


@pytest.mark.parametrize(
    ("name", "changes", "shell"),
    [
        ("asip", {"interval_ms": 15, "edge_hz": 60, "warmup_tests": 50}, "INTERVAL_MS=15 EDGE_HZ=60 WARMUP_TESTS=50"),
        (
            "asip",
            {"qos": 1, "client_cpus": 0.5, "jit": False, "tcp_nodelay": False},
            "TCP_NODELAY=off JIT=off CLIENT_CPUS=0.5 ASIP_QOS=1",
        ),
        ("asip-throughput", {"seconds": 2, "low_hz": 100, "high_hz": 310.5}, "STEP_SECONDS=2 LOW_HZ=100 HIGH_HZ=310.5"),
        ("loop", {"warmup_messages": 3, "robot_framing": "line"}, "ROBOT_FRAMING=line WARMUP_MESSAGES=3"),
        ("qos-delay", {"jitter_share": 0.25, "distribution": "uniform"}, "DISTRIBUTION=uniform JITTER_SHARE=0.25"),
        ("twin", {"batch_rows": 10, "persistence": True}, "BATCH_ROWS=10 PERSISTENCE=on"),
        ("middleware", {"drop_probability": 0.5, "period_ms": 200, "intervals_ms": [200]}, "DROP_PROBABILITY=0.5"),
    ],
)
def test_what_has_no_option_is_named_as_a_variable(name: str, changes: dict[str, Any], shell: str) -> None:
    run = stored(name, **changes)
    variables = command_of(run).split("./lab run")[0].split()
    assert set(shell.split()) <= set(variables)
    asked = asked_again(run)
    assert {parameter: asked[parameter] for parameter in changes} == changes


def test_a_run_as_params_env_has_it_needs_no_variable() -> None:
    """LOAD and priorities of a scenario are its own: the shell cannot set them."""
    (usual,) = runs_of("./lab run scenario5 --fidelity corrected")
    run = stored("loop", **usual.as_json())
    run.scenario, run.fidelity = "scenario5", "corrected"
    assert run.parameters["load"] == "stress"
    assert command_of(run).startswith("./lab run scenario5 --intervals")


def test_a_scenario_that_is_not_here_has_options_alone() -> None:
    run = stored("loop", warmup_messages=3)
    run.scenario = "elsewhere"
    assert command_of(run).startswith("./lab run elsewhere --intervals")


def test_lists_and_pairs_are_written_as_options_take_them() -> None:
    assert asked_again(stored("loop", intervals_ms=[100, 20], qos=[0, 2]))["intervals_ms"] == [100, 20]
    assert asked_again(stored("qos-delay", pairs_ms=[[0, 20], [2, 18]]))["pairs_ms"] == [[0, 20], [2, 18]]
    assert asked_again(stored("twin", write_modes=["row", "copy"]))["write_modes"] == ["row", "copy"]


def test_a_quick_run_is_repeated_as_one() -> None:
    """Its warm-up has no option."""
    quick, whole = stored("middleware", warm_up_s=4), stored("middleware", warm_up_s=10, seconds=60, messages=60)
    assert (asked_again(quick)["warm_up_s"], "--quick" in command_of(quick)) == (4, True)
    assert (asked_again(whole)["warm_up_s"], "--quick" in command_of(whole)) == (10, False)


def test_scenarios_of_the_same_options_share_a_command_and_rounds_are_counted() -> None:
    one, other = Measured(stored("loop"), {}), Measured(stored("loop"), {})
    several = Measured(one.run, {}, (one, other))
    loop = EXPERIMENTS["loop"]
    assert len(run_commands(loop, [one, other])) == 1
    assert "scenario1 scenario1 --intervals" in run_commands(loop, [one, other])[0]
    assert "scenario1 --rounds 2 --intervals" in run_commands(loop, [several])[0]
