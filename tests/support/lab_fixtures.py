"""The lab under test: copied and made ready once, cleared before and after each test."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.e2e_lab import (
    PROJECT,
    Lab,
    copy_of_checkout,
    engine_is_there,
    environment_of,
    remove_what_dead_sessions_left,
)


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One copy for all tests, made ready once."""
    if shutil.which("docker") is None or not engine_is_there():
        pytest.fail("no Docker engine answers here: run ./lab setup first")
    root = copy_of_checkout(tmp_path_factory.mktemp("e2e") / "lab")
    lab = Lab(root, environment_of(root))
    remove_what_dead_sessions_left()
    try:
        set_up(lab, tmp_path_factory.getbasetemp().parent)
        yield lab
    finally:
        lab.down()


def set_up(lab: Lab, shared: Path) -> None:
    """Have the images of a lab. A second lab of this test run knows those of the first, and replaces none."""
    known = shared / f"images-{os.environ.get('PYTEST_XDIST_TESTRUNUID', PROJECT)}.sha256"
    stamps = lab.root / ".cache/images.sha256"
    with (shared / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if known.exists():
            shutil.copy(known, stamps)
        lab.run("setup", timeout_s=900, code=0)
        if stamps.exists():
            shutil.copy(stamps, known)


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """The copy with nothing running before and after."""
    yield session_lab
    session_lab.down()


@pytest.fixture
def own_lab(session_lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A copy that the test may change, with nothing running before and after."""
    yield session_lab.another(tmp_path / "lab")
    session_lab.down()
