"""A second run that was started beside the first is seen in the first one's scans."""

from pathlib import Path
from typing import Any

import pytest
from support.counter_experiment import counter
from support.ports import free_port

from looplab.run.record import Place
from looplab.treatments.judgement import judge_process


def scan(**roles: int) -> dict[str, Any]:
    """Return a scan with so many processes of each role, the same in each scan."""
    there = {
        role: [{"pid": pid, "started_ticks": 1, "threads": []} for pid in range(number)]
        for role, number in roles.items()
    }
    return {"roles": {role: {"before": found, "processes": found} for role, found in there.items()}}


def test_there_is_one_controller() -> None:
    assert judge_process([scan(controller=1)] * 3, "controller").verified
    assert judge_process([scan(broker=2)] * 3, "broker").verified
    found = judge_process([scan(controller=2)] * 3, "controller")
    assert not found.verified
    assert found.found == "2 at once"


def test_a_load_makes_a_run_invalid_that_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREATMENTS_URL", f"http://127.0.0.1:{free_port()}/facts")
    parameters = counter.EXPERIMENT.read_parameters({"MESSAGES": "2", "SLEEPS_MS": "1"})
    controller = counter.Controller(parameters, Place(tmp_path, None, lambda *_, **__: None))
    controller.scans = [None, scan(stress=0, flood=0), scan(stress=0, flood=0)]
    assert controller.faults() == []
    controller.scans.append(scan(stress=3, flood=0))
    assert controller.faults() == ["stress load: running"]
