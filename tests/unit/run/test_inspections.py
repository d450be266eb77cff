"""A run notes who looked inside: what began and ended within it, or outlived it."""

from pathlib import Path

from looplab.run.folder import RunFolder
from looplab.run.inspections import noted, read
from looplab.run.table import run_text


def events(run: Path) -> list[tuple[str, str]]:
    return [(entry["command"], entry["event"]) for entry in read(run)]


def test_a_command_within_a_run_is_noted_twice(tmp_path: Path) -> None:
    over = RunFolder.begun(tmp_path, "scenario2", 1, {}).finish({})
    run, short = RunFolder.begun(tmp_path, "scenario1", 1, {}), RunFolder.begun(tmp_path, "scenario3", 1, {})
    with noted(tmp_path, "./lab inspect"):
        assert events(run.path) == [("./lab inspect", "begins")]
        ended = short.finish({})
    assert events(run.finish({})) == [("./lab inspect", "begins"), ("./lab inspect", "ends")]
    assert all(entry["at"].endswith("Z") for entry in read(run.path))
    assert (events(ended), events(over)) == ([("./lab inspect", "begins")], [])


def test_the_table_names_each_command_once() -> None:
    entries = [{"at": "", "command": command, "event": "begins"} for command in ("./lab inspect", "./lab inspect", "x")]
    run = {"scenario": "s", "fidelity": "thesis", "run_id": "r", "valid": True, "inspections": entries}
    assert run_text(run, []).splitlines()[-1] == "Looked inside meanwhile: ./lab inspect, x."
    assert "Looked" not in run_text({**run, "inspections": []}, [])
