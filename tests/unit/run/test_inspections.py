"""A run notes who looked inside: whatever began before it, began and ended within it, or outlived it."""

from pathlib import Path

import pytest
from support.waiting import until

from looplab.run import inspections
from looplab.run.folder import RunFolder
from looplab.run.inspections import noted, read
from looplab.run.table import run_text


def events(run: Path) -> list[tuple[str, str]]:
    return [(entry["command"], entry["event"]) for entry in read(run)]


def test_a_command_within_a_run_is_noted_twice(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "scenario1", 1, {})
    with noted(tmp_path, "./lab inspect"):
        assert events(run.path) == [("./lab inspect", "begins")]
    assert events(run.finish({})) == [("./lab inspect", "begins"), ("./lab inspect", "ends")]
    assert all(entry["at"].endswith("Z") for entry in read(run.path))


def test_a_run_that_begins_or_ends_meanwhile_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspections, "STEP_S", 0.01)
    with noted(tmp_path, "./lab inspect"):
        run = RunFolder(tmp_path, "scenario1", 1, {})
        until(lambda: events(run.path), "the note")
        final = run.finish({})
    assert events(final) == [("./lab inspect", "begins")]


def test_a_run_that_is_over_is_not_noted(tmp_path: Path) -> None:
    final = RunFolder(tmp_path, "scenario1", 1, {}).finish({})
    with noted(tmp_path, "./lab inspect"):
        pass
    assert read(final) == []


def test_the_table_names_each_command_once() -> None:
    entries = [
        {"at": "", "command": command, "event": "begins"} for command in ("./lab inspect", "./lab inspect", "./lab x")
    ]
    run = {"scenario": "s", "fidelity": "thesis", "run_id": "r", "valid": True, "inspections": entries}
    assert run_text(run, []).splitlines()[-1] == "Looked inside meanwhile: ./lab inspect, ./lab x."
    assert "Looked" not in run_text({**run, "inspections": []}, [])
