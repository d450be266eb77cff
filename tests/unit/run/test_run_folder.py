"""The run folder: whole or told to be interrupted, and no finished sample lost to a full disk."""

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from looplab.errors import LabError
from looplab.run.folder import RunFolder

AT = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)
RUN = "20240229T235958Z-scenario5"
HEADERS = {"samples.csv": "row,outcome", "transport.csv": "row"}


def begin(results: Path) -> RunFolder:
    return RunFolder.begun(results, "scenario5", 10, HEADERS, AT)


def test_a_finished_run_is_renamed_when_whole(tmp_path: Path) -> None:
    folder = begin(tmp_path)
    assert folder.run_id == RUN
    assert [path.name for path in tmp_path.iterdir()] == [f".{RUN}.partial"]
    folder.append("samples.csv", ["one", "two"])
    final = folder.finish({"run_id": folder.run_id})
    assert final == tmp_path / RUN
    assert {path.name: path.read_text() for path in final.glob("*.csv")} == {
        "samples.csv": "row,outcome\none\ntwo\n", "transport.csv": "row\n"
    }  # fmt: skip
    assert json.loads((final / "run.json").read_text()) == {"run_id": RUN}
    assert len([*final.iterdir()]) == 3


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
