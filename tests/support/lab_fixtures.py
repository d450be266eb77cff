"""The lab under test: copied and made ready once, cleared before and after each test."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.e2e_lab import Lab, copy_of_checkout, engine_is_there, environment_of, remove_what_dead_sessions_left


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One copy for all tests, made ready once."""
    if shutil.which("docker") is None or not engine_is_there():
        pytest.fail("no Docker engine answers here: run ./lab setup first")
    root = copy_of_checkout(tmp_path_factory.mktemp("e2e") / "lab")
    lab = Lab(root, environment_of(root))
    remove_what_dead_sessions_left()
    try:
        # Of two labs the second builds from the first one's layers: it gets the same images, and replaces none.
        with (tmp_path_factory.getbasetemp().parent / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lab.run("setup", timeout_s=900, code=0)
        yield lab
    finally:
        lab.down()


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
