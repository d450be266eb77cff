"""A host of fake programs."""

import os
from pathlib import Path

import pytest
from support import host_fakes as fakes


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    """The programs of the host: there are no others."""
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return programs


@pytest.fixture
def docker_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fakes.Docker:
    """The same before the real programs of this machine."""
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{programs.folder}{os.pathsep}{os.environ['PATH']}")
    return fakes.Docker(programs)


@pytest.fixture
def docker(programs: fakes.Programs) -> fakes.Docker:
    """An engine that keeps images, and no other program."""
    return fakes.Docker(programs)
