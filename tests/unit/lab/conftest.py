"""A host of fake programs."""

import os
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.system.env_files import read_env


@pytest.fixture(autouse=True)
def _plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset what this machine's shell may set of the lab and the engine."""
    known = {"COMPOSE_PROJECT_NAME", "DOCKER_HOST", "LOOPLAB_INSIDE", "QOS", *read_env(ROOT / ".env")}
    for name in known & os.environ.keys():
        monkeypatch.delenv(name)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    """The programs of the host: there are no others."""
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    return programs


@pytest.fixture
def docker(programs: fakes.Programs) -> fakes.Docker:
    """An engine that keeps images, and no other program."""
    return fakes.Docker(programs)
