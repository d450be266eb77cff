"""The robot balances over the whole lab: it stands at 20 ms, falls at 100 ms, and takes another scenario's load."""

import json
from typing import Any

from support.e2e_lab import Lab
from support.run_checks import treatments

# Of 60 messages 20 and 100 ms apart; a robot that nobody holds lies after a second.
MESSAGES, STANDS_S, LIES_S = 60, 1.1, 3.0


def run(lab: Lab, *options: str, **variables: str) -> dict[str, Any]:
    code, output, progress = lab.start(
        "run", "balance", "--fidelity", "corrected", "--json", *options, **variables
    ).finish()
    (found,) = json.loads(output)["runs"]
    assert code == 0, progress
    assert found["experiment"] == "balance"
    return dict(found)


def test_it_stands_at_20_ms_and_falls_at_100_ms(lab: Lab) -> None:
    found = run(lab, "--intervals", "100,20", "--messages", str(MESSAGES), "--order", "published")
    long, short = found["cells"]
    assert (long["interval_ms"], short["interval_ms"]) == (100, 20)
    assert long["upright_s"] < LIES_S
    # A pause of the machine lets it fall as well: the newest angle is then as old.
    held = short["age_us"]["max"] < 60_000
    assert short["upright_s"] > STANDS_S or not held
    assert short["angle_rms_rad"] < 0.17 or not held
    assert 0 < short["age_ms"] < short["age_us"]["max"] / 1000
    assert short["upright_s"] <= short["seconds"]
    assert short["misses"] <= 10


def test_another_scenario_gives_it_parts_and_treatments(lab: Lab) -> None:
    options = ("--as", "scenario5", "--intervals", "20", "--messages", str(MESSAGES), "--controller", "pid")
    # Not every engine lets a container have the priority.
    found = run(lab, *options, APPLY_PRIORITY="off")
    assert found["scenario"] == "balance-scenario5"
    assert found["parameters"]["controller"] == "pid"
    assert treatments(found)["stress load"]["found"] == "running"
    assert (found["parameters"]["priority_broker"], found["parameters"]["priority_controller"]) == (90, 99)
