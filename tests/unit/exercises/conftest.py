"""A checkout with the project's exercises, and what `./lab check` prints in it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.lab.commands.check import check

Printed = Callable[..., str]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A checkout with the exercises and no runs; the exercises are the project's own files, to be read alone."""
    for name in ("compose", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "results").mkdir()
    return tmp_path


@pytest.fixture
def printed(lab: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What `./lab check` prints, which must end with this code."""

    def checked(code: int, *words: str) -> str:
        capsys.readouterr()
        assert check(lab, list(words)) == code
        return capsys.readouterr().out

    return checked
