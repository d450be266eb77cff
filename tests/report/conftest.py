"""Stored runs for the report: real ones, made by the lab, under data/."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty results/ in a checkout of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def real_results(results: Path) -> Path:
    """The stored runs as a results/ of one's own."""
    for run in DATA.iterdir():
        shutil.copytree(run, results / run.name)
    return results
