"""What every start does first: the guide, and results/ opened for the controller's user."""

import os
import stat
from pathlib import Path

import pytest

from looplab.experiments.registry import EXPERIMENTS
from looplab.run import prepare


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize(
    ("rights", "uid", "gid"), [(0o755, os.getuid(), 12345), (0o775, 54321, None), (0o777, 54321, 54321)]
)
def test_who_may_write_already_needs_nothing(tmp_path: Path, rights: int, uid: int, gid: int | None) -> None:
    """As the owner, by the group of the folder, because anyone may."""
    tmp_path.chmod(rights)
    assert prepare.open_folder(tmp_path, uid, tmp_path.stat().st_gid if gid is None else gid) == ""
    assert mode(tmp_path) == rights


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another group")
@pytest.mark.parametrize("before", [0o755, 0o700, 0o775, 0o1777])
def test_the_controllers_group_gets_in_and_nobody_else(tmp_path: Path, before: int) -> None:
    tmp_path.chmod(before)
    assert prepare.open_folder(tmp_path, 54321, 54322) == ""
    assert (mode(tmp_path), tmp_path.stat().st_uid, tmp_path.stat().st_gid) == (0o1775, os.geteuid(), 54322)
    assert prepare.open_folder(tmp_path, 54321, 54322) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another group")
def test_a_report_of_roots_can_be_written_again_by_the_group(tmp_path: Path) -> None:
    page = tmp_path / "report/figures/page.html"
    page.parent.mkdir(parents=True)
    page.touch(mode=0o644)
    (tmp_path / "report/link").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    prepare.share(tmp_path / "report", 54322)
    assert [(path.stat().st_gid, mode(path)) for path in (page, page.parent)] == [(54322, 0o664), (54322, 0o775)]
    assert Path("/etc/passwd").stat() == before


def test_a_folder_that_cannot_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    said = prepare.open_folder(tmp_path, 54321, 54321)
    assert "54321" in said
    assert "LAB_UID" in said


@pytest.mark.parametrize("value", ["me", "1000:1000", "1.5"])
def test_a_malformed_user_is_one_sentence(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_UID", value)
    assert prepare.main(EXPERIMENTS) == 2
    said = capsys.readouterr().err
    assert "LAB_UID" in said
    assert "Traceback" not in said
