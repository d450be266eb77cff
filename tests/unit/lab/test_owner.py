"""A checkout stays its owner's after `sudo ./lab`."""

import os
from pathlib import Path

import pytest

from looplab.lab.cli import main
from looplab.lab.owner import give_back

USER = 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files that are not its own")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A user's checkout into which root wrote."""
    root = tmp_path / "lab"
    (root / "results/run").mkdir(parents=True)
    (root / "results/run/run.json").write_text("{}")
    os.chown(root, USER, USER)
    return root


def test_what_root_wrote_is_given_to_the_owner(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_ROOT", str(root))
    assert main(["show", "no-such-run"]) != 0
    assert {path.stat().st_uid for path in [root, *root.rglob("*")]} == {USER}


def test_nothing_outside_and_nothing_of_others_is_given_away(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("root's")
    (root / "link").symlink_to(outside)
    (root / "name").hardlink_to(outside / "secret")
    os.chown(root / "results", 54321, 54321)
    give_back(root)
    assert {path.stat().st_uid for path in (outside, outside / "secret")} == {0}
    assert ((root / "link").lstat().st_uid, (root / "results").stat().st_uid) == (USER, 54321)
