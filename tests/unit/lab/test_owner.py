"""A checkout stays its owner's after `sudo ./lab`."""

import os
from pathlib import Path

import pytest

from looplab.lab.cli import main
from looplab.lab.owner import give_back

USER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files that are not its own")


def checkout(folder: Path) -> Path:
    root = folder / "lab"
    (root / "results" / "run").mkdir(parents=True)
    (root / "results" / "run" / "run.json").write_text("{}")
    os.chown(root, USER, USER)
    return root


@needs_root
def test_what_root_wrote_is_given_to_the_owner(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    give_back(root)
    assert {path.stat().st_uid for path in [root, *root.rglob("*")]} == {USER}


@needs_root
def test_nothing_outside_the_checkout_is_given_away(tmp_path: Path) -> None:
    root, outside = checkout(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("root's")
    (root / "link").symlink_to(outside)
    (root / "name").hardlink_to(outside / "secret")
    give_back(root)
    assert {path.stat().st_uid for path in (outside, outside / "secret")} == {0}
    assert (root / "link").lstat().st_uid == USER


@needs_root
def test_files_of_others_and_roots_own_checkout_stay(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    os.chown(root / "results", 54321, 54321)
    give_back(root)
    assert (root / "results").stat().st_uid == 54321
    os.chown(root, 0, 0)
    (root / "new").write_text("")
    give_back(root)
    assert (root / "new").stat().st_uid == 0


@needs_root
def test_a_command_that_fails_gives_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = checkout(tmp_path)
    monkeypatch.setenv("LAB_ROOT", str(root))
    assert main(["show", "no-such-run"]) != 0
    assert (root / "results" / "run" / "run.json").stat().st_uid == USER
