"""CLIENTS=printed with real programs on loopback: their account, their stamps, and what a run shows of them."""

import json
from typing import Any

import pytest
from support.loop_lab import LoopLab
from support.parts import TreatmentsDouble
from support.places import ROOT
from support.run_checks import check_run

from looplab.experiments.loop import CLIENTS
from looplab.system import processes

pytestmark = pytest.mark.usefixtures("seeing")


@pytest.fixture
def seeing(lab: LoopLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the treatments double find the programs, which come and go."""
    lab.treatments.close()

    def pids() -> dict[str, list[int]]:
        own = [pid for name in CLIENTS.comms for pid in processes.named(name)]
        return {**lab.pids, "broker": [lab.broker.pid], CLIENTS.name: own}

    lab.treatments = TreatmentsDouble(pids, lab.fifo)
    monkeypatch.setenv("PRINTED_CLIENTS", str(ROOT / "images/printed"))


def run(lab: LoopLab, **variables: str) -> dict[str, Any]:
    """Run the printed clients in this Python; return run.json."""
    # The tests' broker has TCP_NODELAY.
    lab.online_bridge(FIDELITY="thesis", TCP_NODELAY="on")
    settings = {
        "FIDELITY": "printed",
        "TCP_NODELAY": "on",
        "BROKER_PATH": "direct",
        "PYTHON": "3",
        "MESSAGES": "20",
        **variables,
    }
    child = lab.controller(**settings)
    code = child.wait()
    found: dict[str, Any] = json.loads((lab.run / "run.json").read_text())
    assert code == 0, (child.said(), found["invalid_because"])
    check_run(lab.run, found)
    return found


def treatments(run: dict[str, Any]) -> dict[str, str]:
    return {entry["what"]: entry["found"] for entry in run["treatments"]}


def test_each_repetition_has_processes_of_its_own(lab: LoopLab) -> None:
    found = run(lab, QOS="0 1 2", REPETITIONS="2")
    assert [(cell["sent"], cell["answered"]) for cell in found["cells"]] == [(40, 40)] * 3
    assert treatments(found)["client processes"] == "12"
    assert found["warmup"] == {"sent": 0, "answered": 0}
    for cell in found["cells"]:
        assert cell["written"] == 2
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]
