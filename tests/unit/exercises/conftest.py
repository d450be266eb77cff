"""A checkout with the project's exercises, and what `./lab check` prints in it."""

import shutil
from pathlib import Path

import pytest
from exercise_runs import PAIR, Printed, did
from support.places import ROOT

from looplab.lab.commands.check import check


def checkout(root: Path) -> Path:
    """Return a checkout with the exercises and no runs; the exercises are the project's own files, to be read alone."""
    for name in ("compose", "docs"):
        (root / name).symlink_to(ROOT / name)
    (root / "results").mkdir()
    return root


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return checkout(tmp_path)


@pytest.fixture
def printed(lab: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What `./lab check` prints, which must end with this code."""

    def checked(code: int, *words: str) -> str:
        capsys.readouterr()
        assert check(lab, list(words)) == code
        return capsys.readouterr().out

    return checked


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which scenario 2 is done and checked, to be copied."""
    root = checkout(tmp_path_factory.mktemp("done"))
    did(root, "scenario2", PAIR)
    assert check(root, ["scenario2"]) == 0
    return root


@pytest.fixture
def second(lab: Path, done: Path) -> list[str]:
    """Scenario 2 done and checked: its runs."""
    for name in ("results", "answers"):
        shutil.copytree(done / name, lab / name, dirs_exist_ok=True)
    return sorted(path.name for path in (lab / "results").iterdir())
