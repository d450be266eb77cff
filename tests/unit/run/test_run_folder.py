"""The run folder: whole or interrupted, no finished sample lost; what a killed controller left is recovered once."""

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.counter_experiment import counter
from support.tables import rows

from looplab.errors import LabError
from looplab.experiments.registry import EXPERIMENTS
from looplab.run.document import files_of
from looplab.run.folder import RunFolder
from looplab.run.prepare import GONE, recover
from looplab.run.record import STATE, Place, Record
from looplab.run.samples import ANSWERED, WAITING
from looplab.spec.experiment import Experiments

AT = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)
RUN = "20240229T235958Z-scenario5"
HEADERS = {"samples.csv": "row,outcome", "transport.csv": "row"}


def begin(results: Path) -> RunFolder:
    return RunFolder.begun(results, "scenario5", 10, HEADERS, AT)


def test_no_power_failure_takes_a_run_that_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is on disk only once its folder is."""
    synced: list[tuple[Path, set[str]]] = []
    really = os.fsync

    def fsync(handle: int) -> None:
        really(handle)
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced.append((place, {path.name for path in place.iterdir()} if place.is_dir() else set()))

    monkeypatch.setattr("looplab.run.folder.os.fsync", fsync)
    folder = begin(tmp_path)
    temporary = folder.path
    assert (temporary, {"samples.csv", "transport.csv", ".lock"}) in synced
    assert (tmp_path, {temporary.name}) in synced
    folder.finish({})
    assert any(place == temporary and "run.json" in names for place, names in synced)
    assert synced[-1] == (tmp_path, {folder.run_id})


def test_two_runs_within_a_second_both_have_a_folder(tmp_path: Path) -> None:
    first, *folders = (begin(tmp_path) for _ in range(3))
    finals = {first.finish({})}
    finals |= {folder.finish({}) for folder in (*folders, begin(tmp_path))}
    assert len(finals) == 4
    assert all((final / "run.json").exists() for final in finals)


@pytest.mark.parametrize("end", [lambda folder: folder.interrupt("full"), lambda folder: folder.finish({"cells": []})])
@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "disk space"), (errno.EDQUOT, "disk space"), (errno.EROFS, "read-only"),
        (errno.EACCES, "folder's owner: `stat"), (errno.ENOTDIR, "is a folder on a disk"),
    ],
)  # fmt: skip
def test_a_disk_that_fails_keeps_what_was_stored_and_no_part_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str, end: Callable[[RunFolder], object]
) -> None:
    folder = begin(tmp_path)
    folder.append("samples.csv", ["one"])

    def fsync(_fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("looplab.run.folder.os.fsync", fsync)
    with pytest.raises(LabError, match=r"samples\.csv") as caught:
        folder.rewrite("samples.csv", HEADERS["samples.csv"], ["one", "two"])
    assert remedy in caught.value.remedy
    assert os.strerror(code) in caught.value.message
    with pytest.raises(LabError):
        end(folder)
    assert sorted(path.name for path in (tmp_path / RUN).iterdir()) == ["samples.csv", "transport.csv"]
    assert (tmp_path / RUN / "samples.csv").read_text() == "row,outcome\none\n"


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


def test_live_rows_are_stored_once(tmp_path: Path, results: Path) -> None:
    """Which rows they are: tests/integration/experiments/loop/test_controller.py."""
    run = killed(results, tmp_path)
    (line,) = recover(results, tmp_path, KNOWN)
    assert line == f"{run}: its controller was killed; 4 samples kept in results/{run}."
    assert [row["outcome"] for row in rows(results / run / "samples.csv")] == [*["answered"] * 3, "lost"]
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
