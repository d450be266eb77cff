"""Stored runs for the report: real ones, made by the lab."""

import shutil
from pathlib import Path

import pytest
from support.places import STORED_RUNS


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty results/ in a checkout of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def stored_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored runs as a results/, for tests that only read."""
    return Path(shutil.copytree(STORED_RUNS, tmp_path_factory.mktemp("stored") / "results"))
