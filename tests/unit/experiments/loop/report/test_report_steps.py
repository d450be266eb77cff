"""The steps from the printed set-up to the corrected one: whose runs they are, and what each changes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, shown, write
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.parameters import read_parameters
from looplab.experiments.loop.studies import STEPS, VARIANTS
from looplab.run.accounting import summarise

# Mean O in us as the client has it, by step; at its packets printed clients have 1000 us throughout.
LEVELS_US = {"printed": 9000, "receiver sleeps": 2000, "the lab's client: thesis": 1000, "QoS on all legs": 41000}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    found, rng = tmp_path / "results", np.random.default_rng(5)
    for at, (step, level_us) in enumerate(LEVELS_US.items()):
        settings = read_parameters({"SCENARIO": "scenario1", **VARIANTS["clients"][step]})
        printed = settings.clients == "printed"
        own = ("clients", "receiver", "life", "broker_path", "python", "qos_legs", "pacing", "order", "warmup_messages",
               "robot_framing", "pairing")  # fmt: skip
        folder = write_run(
            found, "scenario1", fidelity=settings.fidelity, start=f"2026010{at + 1}T000000Z",
            cells={(20.0, 0): simulated_cell(rng, 2, 50, 1000 if printed else level_us, 4280, 0.01)},
            parameters={name: getattr(settings, name) for name in own},
        )  # fmt: skip
        if printed:
            with edited(folder) as run:
                run["cells"][0]["client_O_us"] = summarise([1000 * level_us] * 100)
    return found


def test_each_step_has_its_change(results: Path, tmp_path: Path) -> None:
    assert write(results, tmp_path / "out") == 0
    steps = shown(results).context["steps"]["scenario1"]
    assert [step.name for step in steps] == list(LEVELS_US)
    client = [step.levels[0].client_us for step in steps]
    assert client == pytest.approx(list(LEVELS_US.values()), rel=0.15)
    assert [step.levels[0].packets_us for step in steps] == pytest.approx([1000, 1000, 1000, 41000], rel=0.15)
    assert [step.changes_us[0] for step in steps[1:]] == pytest.approx(np.diff(client), abs=0.01)
    page = Page(tmp_path / "out/index.html")
    assert "From the printed set-up to the corrected one" in " ".join(page.words)


def test_the_steps_change_one_property_each() -> None:
    every = [read_parameters({"SCENARIO": "scenario1", **one}).as_json() for one in VARIANTS["clients"].values()]
    changed = [
        {name for name in before if before[name] != after[name]} - {"fidelity", "warmup_messages", "order_seed"}
        for before, after in pairwise(every)
    ]
    assert changed == [
        {"robot_framing"}, {"pairing"}, {"receiver"}, {"python"}, {"life"}, {"broker_path"}, {"clients"}, {"qos_legs"},
        {"connections"},
        {"tcp_nodelay"}, {"robot_framing", "serial_low_latency", "pacing", "order", "apply_priority"},
    ]  # fmt: skip
    assert every[0] == read_parameters({"SCENARIO": "scenario1", "FIDELITY": "printed"}).as_json()
    assert len(every) == len(STEPS)
