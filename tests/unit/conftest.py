"""Stored runs for the report: real ones, made by the lab, under data/."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.places import STORED_RUNS as DATA


def _copy(folder: Path) -> Path:
    for run in DATA.iterdir():
        shutil.copytree(run, folder / run.name)
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty results/ in a checkout of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def real_results(results: Path) -> Path:
    """The stored runs as a results/ of one's own."""
    return _copy(results)


@pytest.fixture(scope="module")
def stored_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that only read."""
    return _copy(tmp_path_factory.mktemp("stored") / "results")
