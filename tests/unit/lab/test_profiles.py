"""compose/profiles.yaml follows the folders of scenarios and experiments."""

import shutil
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.profiles import PROFILES, profiles_text, update_profiles


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "compose", tmp_path / "compose")
    return tmp_path


def test_the_committed_file_is_what_the_folders_give() -> None:
    assert (ROOT / PROFILES).read_text(encoding="utf-8") == profiles_text(ROOT), (
        "run any ./lab command that starts runs"
    )


def test_a_folder_that_comes_is_listed_and_one_that_goes_is_not(tree: Path) -> None:
    shutil.copytree(tree / "compose/scenarios/scenario1", tree / "compose/scenarios/mine")
    update_profiles(tree)
    text = (tree / PROFILES).read_text()
    assert text == (ROOT / PROFILES).read_text().replace("      - scenario0\n", "      - mine\n      - scenario0\n")
    shutil.rmtree(tree / "compose/scenarios/mine")
    update_profiles(tree)
    assert (tree / PROFILES).read_text() == (ROOT / PROFILES).read_text()


CRLF = (ROOT / PROFILES).read_bytes().replace(b"\n", b"\r\n")


@pytest.mark.parametrize(("found", "kept"), [(b"", False), (b"services: [unclosed", False), (CRLF, True)])
def test_a_broken_file_is_written_again_and_a_right_one_kept_whatever_its_line_ends(
    tree: Path, found: bytes, kept: bool
) -> None:
    (tree / PROFILES).write_bytes(found)
    update_profiles(tree)
    assert (tree / PROFILES).read_bytes() == (found if kept else (ROOT / PROFILES).read_bytes())


def test_a_file_that_cannot_be_written_is_named(tree: Path) -> None:
    (tree / PROFILES).unlink()
    (tree / PROFILES).mkdir()
    with pytest.raises(UsageError, match=r"compose/profiles\.yaml cannot be written: Is a directory"):
        update_profiles(tree)
