"""Programs of this machine that tests run: ./lab test installs them, so a missing one is a failure."""

import shutil
from pathlib import Path

import pytest

from looplab.lab.commands.test import PACKAGES, PROGRAM_PATH
from support.wire import call


def program(name: str) -> str:
    """Return the path of a program; the test fails if it is missing."""
    found = shutil.which(name, path=PROGRAM_PATH)
    if found is None:
        pytest.fail(f"`{name}` is missing: `./lab test` installs its package, see {PACKAGES}")
    return found


def make_repository(folder: Path) -> None:
    """Make a Git repository of the folder, with all its files in a first commit."""
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (["init"], ["add", "."], ["commit", "-m", "first"]):
        call(*git, *words)
