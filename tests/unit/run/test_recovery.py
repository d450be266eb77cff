"""What a killed controller left: recovered into the run's folder once nobody holds it, and never twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.counter_experiment import counter

from looplab.experiments.registry import EXPERIMENTS
from looplab.run.document import files_of
from looplab.run.folder import RunFolder
from looplab.run.prepare import GONE, recover
from looplab.run.record import STATE, Place, Record
from looplab.run.samples import ANSWERED, WAITING
from looplab.spec.experiment import Experiments

KNOWN = Experiments({"counter": counter.__name__}, default="counter")


def record_of(results: Path, live: Path) -> Record:
    p = counter.EXPERIMENT.read_parameters({"MESSAGES": "3", "SLEEPS_MS": "2,1"})
    made = Record(p, Place(results, live, lambda *_, **__: None), (), files_of(counter.EXPERIMENT, p), "counter")
    made.state("running")
    return made


def measure(record: Record, rows: range, state: int = ANSWERED) -> None:
    for row in rows:
        for name in ("due_ns", "intended_ns", "sent_ns"):
            record.store[name][row] = 1000 * row
        if state == ANSWERED:
            record.store["received_ns"][row] = 1000 * row + 500
        record.store["state"][row] = state


def killed(results: Path, live: Path) -> str:
    """A run that had stored one message of four; return its folder's name. Its locks end with its objects."""
    record = record_of(results, live)
    measure(record, range(1))
    record.append(range(1))
    measure(record, range(1, 3))
    measure(record, range(3, 4), WAITING)
    return hidden(results)


def hidden(results: Path) -> str:
    """Return the name that the only folder would get at the end of its run."""
    return "".join(path.name for path in results.iterdir())[1:].removesuffix(".partial")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def test_live_rows_are_stored_exactly_as_an_interrupted_run_stores_them(tmp_path: Path, results: Path) -> None:
    (tmp_path / "other").mkdir()
    interrupted = record_of(tmp_path / "other", tmp_path / "other")
    measure(interrupted, range(3))
    measure(interrupted, range(3, 4), WAITING)
    interrupted.keep("interrupted")
    (wanted,) = (tmp_path / "other").glob("2*/samples.csv")
    run = killed(results, tmp_path)
    (line,) = recover(results, tmp_path, KNOWN)
    assert line == f"{run}: its controller was killed; 4 samples kept in results/{run}."
    assert (results / run / "samples.csv").read_text() == wanted.read_text()
    kept = json.loads((results / run / "interrupted.json").read_text())
    assert kept == {
        "scenario": "counter", "interrupted_because": "its controller was killed", "run_id": run, "samples": 4,
    }  # fmt: skip
    assert json.loads((tmp_path / STATE).read_text())["state"] == "interrupted"
    assert sorted(path.name for path in (results / run).iterdir()) == ["interrupted.json", "samples.csv"]
    assert list(recover(results, tmp_path, KNOWN)) == []


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path, results: Path) -> None:
    """By the lock of live memory, and by that of its folder, as of a lab with another volume."""
    record = record_of(results, tmp_path)
    assert list(recover(results, tmp_path, KNOWN)) == []
    (tmp_path / "elsewhere").mkdir()
    assert list(recover(results, tmp_path / "elsewhere", KNOWN)) == []
    measure(record, range(2))
    record.keep("interrupted")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda state: {**state, "run_id": "20260101T000000Z-counter"},
            f"killed; 1 sample kept in results/{{}}{GONE}.",
        ),
        (lambda state: {**state, "parameters": {**state["parameters"], "messages": 4}}, "6 rows in place of 8"),
        (lambda state: {**state, "parameters": []}, "cannot be read"),
        (lambda state: {**state, "experiment": "unknown"}, "cannot be read"),
        (lambda state: [state], f"killed; 1 sample kept in results/{{}}{GONE}."),
    ],
)
def test_rows_that_are_not_this_runs_leave_what_was_stored(
    tmp_path: Path, results: Path, change: Any, words: str
) -> None:
    run = killed(results, tmp_path)
    state = json.loads((tmp_path / STATE).read_text())
    (tmp_path / STATE).write_text(json.dumps(change(state)))
    (line,) = recover(results, tmp_path, KNOWN)
    assert words.format(run) in line
    assert len((results / run / "samples.csv").read_text().splitlines()) == 2


def test_a_run_whose_live_rows_are_gone_is_not_said_to_have_measured_nothing(tmp_path: Path, results: Path) -> None:
    """As after `docker compose down`, which unmounts live memory."""
    (tmp_path / "live").mkdir()
    record_of(results, tmp_path)
    for live, kept in ((tmp_path, "it had measured nothing"), (tmp_path / "live", f"nothing is kept{GONE}")):
        run = hidden(results)
        assert list(recover(results, live, KNOWN)) == [f"{run}: its controller was killed; {kept}."]
        assert list(results.iterdir()) == []
        RunFolder.begun(results, "counter", 1, {"samples.csv": "row"})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parameters_are_read_back_as_they_were(name: str) -> None:
    """Each experiment's files follow from them."""
    experiment = EXPERIMENTS[name]
    p = experiment.read_parameters({"SCENARIO": name})
    again = experiment.parameters.of_json(json.loads(json.dumps(p.as_json())))
    assert again == p
    assert files_of(experiment, again)[0].name == "samples.csv"
