"""The run folder: whole or told to be interrupted, and no finished sample lost to a full disk."""

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from looplab.errors import LabError, MachineError
from looplab.run.folder import RunFolder

AT = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)


HEADERS = {"samples.csv": "row,outcome", "transport.csv": "row"}
SAMPLES_HEADER, TRANSPORT_HEADER = HEADERS.values()


def folder_of(results: Path, scenario: str, samples: int, started: datetime | None = None) -> RunFolder:
    return RunFolder.begun(results, scenario, samples, HEADERS, started)


def fail_with(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """From now on nothing reaches the disk."""

    def fsync(_fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("looplab.run.folder.os.fsync", fsync)


def test_a_finished_run_is_renamed_when_whole(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "scenario5", 10, AT)
    assert folder.run_id == "20240229T235958Z-scenario5"
    assert [path.name for path in tmp_path.iterdir()] == [".20240229T235958Z-scenario5.partial"]
    folder.append("samples.csv", ["one", "two"])
    final = folder.finish({"run_id": folder.run_id})
    assert final == tmp_path / folder.run_id
    assert (final / "samples.csv").read_text() == f"{SAMPLES_HEADER}\none\ntwo\n"
    assert (final / "transport.csv").read_text() == f"{TRANSPORT_HEADER}\n"
    assert json.loads((final / "run.json").read_text()) == {"run_id": folder.run_id}
    assert sorted(path.name for path in final.iterdir()) == ["run.json", "samples.csv", "transport.csv"]


def test_no_power_failure_takes_a_run_that_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is on disk only once its folder is."""
    synced: list[tuple[Path, set[str]]] = []
    really = os.fsync

    def fsync(handle: int) -> None:
        really(handle)
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced.append((place, {path.name for path in place.iterdir()} if place.is_dir() else set()))

    monkeypatch.setattr("looplab.run.folder.os.fsync", fsync)
    folder = folder_of(tmp_path, "scenario5", 10, AT)
    temporary = folder.path
    assert (temporary, {"samples.csv", "transport.csv", ".lock"}) in synced
    assert (tmp_path, {temporary.name}) in synced
    folder.finish({})
    assert any(place == temporary and "run.json" in names for place, names in synced)
    assert synced[-1] == (tmp_path, {folder.run_id})


def test_two_runs_within_a_second_both_have_a_folder(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path, "s", 1, AT) for _ in range(3)]
    assert len({folder.run_id for folder in folders}) == 3
    folders[0].finish({})
    folders.append(folder_of(tmp_path, "s", 1, AT))
    finals = {folder.finish({}) for folder in folders[1:]}
    assert len(finals | {folders[0].path}) == 4
    assert all((final / "run.json").exists() for final in finals)


def test_results_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(MachineError, match="Cannot store the run") as caught:
        folder_of(tmp_path / "results", "s", 1, AT)
    assert "folder" in caught.value.remedy


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "disk space"),
        (errno.EDQUOT, "disk space"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "folder's owner: `stat"),
    ],
)
def test_a_disk_that_fails_in_the_middle_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    folder = folder_of(tmp_path, "s", 1, AT)
    fail_with(monkeypatch, code)
    with pytest.raises(LabError, match=r"samples\.csv") as caught:
        folder.append("samples.csv", ["one"])
    assert remedy in caught.value.remedy
    assert os.strerror(code) in caught.value.message


@pytest.mark.parametrize("end", [lambda folder: folder.interrupt("full"), lambda folder: folder.finish({"cells": []})])
def test_a_full_disk_keeps_what_was_stored_and_no_part_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[RunFolder], object]
) -> None:
    folder = folder_of(tmp_path, "s", 1, AT)
    folder.append("samples.csv", ["one"])
    fail_with(monkeypatch, errno.ENOSPC)
    with pytest.raises(LabError):
        folder.rewrite("samples.csv", SAMPLES_HEADER, ["one", "two"])
    with pytest.raises(LabError):
        end(folder)
    final = tmp_path / folder.run_id
    assert sorted(path.name for path in final.iterdir()) == ["samples.csv", "transport.csv"]
    assert (final / "samples.csv").read_text() == f"{SAMPLES_HEADER}\none\n"
