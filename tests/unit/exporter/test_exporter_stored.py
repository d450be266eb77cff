"""Stored runs: the newest of each scenario and fidelity, whatever else lies in results/."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.places import STORED_RUNS
from support.run_files import store

from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.stored import StoredRuns


@pytest.fixture
def runs(tmp_path: Path) -> StoredRuns:
    return StoredRuns(tmp_path, EXPERIMENTS, look_again_s=0.0)


def test_newest_of_each_scenario_and_fidelity(tmp_path: Path, runs: StoredRuns) -> None:
    store(tmp_path, "20260101T000000Z-scenario1")
    store(tmp_path, "20260102T000000Z-scenario1")
    store(tmp_path, "20260101T000000Z-scenario2")
    store(tmp_path, "20251231T000000Z-scenario1", fidelity="corrected")
    assert runs.refresh()
    assert {key: run_id for key, (run_id, _) in runs.newest.items()} == {
        ("scenario1", "thesis"): "20260102T000000Z-scenario1",
        ("scenario2", "thesis"): "20260101T000000Z-scenario2",
        ("scenario1", "corrected"): "20251231T000000Z-scenario1",
    }
    assert not runs.refresh(), "nothing changed"
    text = runs.newest["scenario1", "thesis"][1]["loop_latency_seconds"]
    assert 'metric="O"} 3' in text
    assert 'fidelity="corrected"' not in text


def _last_line_gone(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("run.json", lambda _text: '{"schema": 1, "sc'),
        ("run.json", lambda _text: '{"schema": 99}'),
        ("run.json", lambda _text: "[]"),
        ("run.json", lambda text: json.dumps({**json.loads(text), "cells": 5})),
        ("samples.csv", lambda text: text[:-30]),
        ("samples.csv", _last_line_gone),
        ("samples.csv", lambda _text: None),
        ("samples.csv", lambda _text: "a,b\n"),
        ("samples.csv", lambda _text: bytes(range(256)).decode("latin-1")),
    ],
)
def test_a_damaged_run_is_named_once_and_an_older_one_shown(
    tmp_path: Path,
    runs: StoredRuns,
    capsys: pytest.CaptureFixture[str],
    name: str,
    damaged: Callable[[str], str | None],
) -> None:
    store(tmp_path, "20260101T000000Z-scenario1")
    path = store(tmp_path, "20260102T000000Z-scenario1") / name
    text = damaged(path.read_text())
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="latin-1")
    for _ in range(3):
        runs.refresh()
    assert runs.newest["scenario1", "thesis"][0] == "20260101T000000Z-scenario1"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("results/20260102T000000Z-scenario1 is left out: ")
    assert runs.damaged == {"20260102T000000Z-scenario1"}


@pytest.mark.parametrize("name", ["run.json", "samples.csv"])
def test_a_pipe_is_no_run(tmp_path: Path, runs: StoredRuns, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever opens one waits for ever."""
    store(tmp_path, "20260101T000000Z-scenario1")
    store(tmp_path, "20260102T000000Z-scenario1")
    (tmp_path / "20260102T000000Z-scenario1" / name).unlink()
    os.mkfifo(tmp_path / "20260102T000000Z-scenario1" / name)
    assert runs.refresh()
    assert runs.newest["scenario1", "thesis"][0] == "20260101T000000Z-scenario1"
    assert ("is no file" in capsys.readouterr().err) == (name == "samples.csv")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in STORED_RUNS.glob("*/run.json")))
def test_a_run_of_before_is_shown(tmp_path: Path, runs: StoredRuns, name: str) -> None:
    shutil.copytree(STORED_RUNS / name, tmp_path / name)
    assert "intended_ns" not in (tmp_path / name / "samples.csv").read_text().partition("\n")[0]
    runs.refresh()
    assert [run_id for run_id, _ in runs.newest.values()] == [name]


def test_a_run_copied_in_slowly_is_taken_when_whole(tmp_path: Path, runs: StoredRuns) -> None:
    whole = store(tmp_path / "elsewhere", "20260101T000000Z-scenario1")
    half = tmp_path / whole.name
    half.mkdir()
    shutil.copy(whole / "run.json", half)
    runs.refresh()
    assert runs.newest == {}
    shutil.copy(whole / "samples.csv", half)
    runs.refresh()
    assert ("scenario1", "thesis") in runs.newest
    assert runs.damaged == frozenset()


def test_what_is_no_whole_run_is_passed_over(
    tmp_path: Path, runs: StoredRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".20260101T000000Z-scenario1.partial").mkdir()
    (tmp_path / "20260101T000000Z-scenario2").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    runs.refresh()
    assert (runs.newest, capsys.readouterr().err) == ({}, "")


def test_a_removed_run_disappears(tmp_path: Path, runs: StoredRuns) -> None:
    folder = store(tmp_path, "20260101T000000Z-scenario1")
    runs.refresh()
    shutil.rmtree(folder)
    assert runs.refresh()
    assert runs.newest == {}


def test_missing_results_folder_is_no_fault(tmp_path: Path) -> None:
    assert not StoredRuns(tmp_path / "nowhere", EXPERIMENTS).refresh()


def test_500_runs_are_listed_quickly_and_parsed_once(tmp_path: Path, runs: StoredRuns) -> None:
    folders = [store(tmp_path, f"2026{number:04d}T000000Z-scenario{number % 9}") for number in range(500)]
    # Whoever parsed an older run would find it damaged.
    for folder in folders[:-9]:
        (folder / "samples.csv").write_text("a,b\n")
    runs.refresh()
    parsed = {key: id(texts) for key, (_, texts) in runs.newest.items()}
    assert (len(parsed), runs.damaged) == (9, frozenset())
    started = time.process_time()
    assert not runs.refresh()
    assert time.process_time() - started < 0.25
    assert {key: id(texts) for key, (_, texts) in runs.newest.items()} == parsed


def test_unreadable_folder_is_named(tmp_path: Path, runs: StoredRuns, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store(tmp_path, "20260101T000000Z-scenario1")
    (folder / "samples.csv").unlink()
    os.symlink(folder / "samples.csv", folder / "samples.csv")
    runs.refresh()
    assert len(capsys.readouterr().err.splitlines()) == 1
