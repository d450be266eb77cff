"""The treatments service: which roles and priorities it serves, and for whom it starts."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from looplab.errors import EXIT_MACHINE, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.spec.brokers import BROKERS
from looplab.spec.roles import CONTROLLER
from looplab.system import processes
from looplab.treatments.loads import loads
from looplab.treatments.scans import TOKEN
from looplab.treatments.service import answer, end_loads, permitted

PERMITTED = permitted(EXPERIMENTS)


def asked(comm: str, fifo: Any = 0, **more: Any) -> dict[str, Any]:
    return {"roles": {"one": {"comm": [comm], "fifo": fifo, **more}}}


@pytest.mark.parametrize(
    "request_",
    [
        asked("stress", 99), asked("stress", "99"), asked("python3"), asked("systemd", 1), asked("lab-bridge", 96),
        asked("robot", -1), asked("mosquitto", 0, files=["etc/shadow"]), asked("mosquitto", 100), asked("", 0),
    ],
)  # fmt: skip
def test_no_other_role_and_no_higher_priority(request_: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="none of this lab"):
        answer(request_, PERMITTED)


def test_what_each_experiment_asks_is_answered() -> None:
    roles = [role for experiment in EXPERIMENTS.values() for role in experiment.roles]
    roles += [broker.role for broker in BROKERS.values()] + [load.role for load in loads().values()]
    # As a run without priorities asks: the machine of this test may run such processes, and they stay as they are.
    for role in roles:
        answer({"roles": {role.name: {**role.question(), "fifo": 0}}}, PERMITTED)
        assert PERMITTED[role.comms, role.files] >= role.fifo
    assert PERMITTED[CONTROLLER.comms, ()] == 99
    assert {PERMITTED[load.role.comms, ()] for load in loads().values()} == {0}


@pytest.mark.parametrize("content", [None, ""])
def test_it_does_not_start_without_a_token(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / TOKEN).write_text(content)
    variables = {"PYTHONPATH": str(ROOT / "src"), "TOKENS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "looplab.experiments.treatments"],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_MACHINE
    assert "No token" in done.stderr


def test_loads_are_ended_in_the_labs_own_namespace_alone() -> None:
    with pytest.raises(UsageError, match="process 1"):
        end_loads()


def test_a_containers_first_process_has_its_parent_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 is a loop whose child 8 is the load; 9 is a load that lost its parent and went to process 1."""
    for pid, parent in ((1, 0), (7, 0), (8, 7), (9, 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a (b) c) S {parent} 0\n")
    killed: list[int] = []
    monkeypatch.setattr(processes.os, "kill", lambda pid, _number: killed.append(pid))
    for pid in (8, 9, 10):
        processes.end_container(pid, tmp_path)
    assert sorted(killed) == [7, 8, 9, 10]
