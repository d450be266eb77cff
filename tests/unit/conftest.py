"""Where tests of the report put runs."""

from pathlib import Path

import pytest


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty results/ in a checkout of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder
