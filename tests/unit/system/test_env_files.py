"""Env files are read as Compose reads them, a meaningless line is named; a file that one process holds."""

import os
from pathlib import Path

import pytest

from looplab.errors import UsageError
from looplab.system.env_files import read_env, read_port
from looplab.system.lock import Held, hold, holder


@pytest.mark.parametrize(
    ("octets", "wanted"),
    [
        (
            b"# comment\nA=1\n\n B = two words \nC='quoted'\nD=\nE=x=y\n",
            {"A": "1", "B": "two words", "C": "quoted", "D": "", "E": "x=y"},
        ),
        # The values are what Compose 2.26 showed for these lines.
        (b"A=50 # few\nB=\"a # b\" # c\nC='x'\nD=a#b", {"A": "50", "B": "a # b", "C": "x", "D": "a#b"}),
        (b"export E=1\nF = 7\nH=# nothing\nI=it's\n # K=1", {"E": "1", "F": "7", "H": "# nothing", "I": "it's"}),
        # As an editor on Windows saves it.
        (b"\xef\xbb\xbfROBOT=usb\r\nQOS=1\r\n", {"ROBOT": "usb", "QOS": "1"}),
    ],
)
def test_lines_are_read_as_compose_reads_them(tmp_path: Path, octets: bytes, wanted: dict[str, str]) -> None:
    path = tmp_path / ".env"
    path.write_bytes(octets)
    assert read_env(path) == wanted


@pytest.mark.parametrize("line", [b"MESSAGES: 100", b"JUST TEXT", b"=5", b"TITLE=Pr\xfcfung"])
def test_a_line_that_sets_nothing_or_is_no_utf_8_is_told(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"# comment\n\nQOS=1\n" + line + b"\n")
    with pytest.raises(UsageError, match="line 4"):
        read_env(path)


@pytest.mark.parametrize("text", ["", "0", "65536", "http", "-1", "1883/tcp", "²"])
def test_what_is_not_a_port_is_named_with_its_variable(text: str) -> None:
    with pytest.raises(UsageError, match=f"`X_PORT={text}`"):
        read_port({"X_PORT": text}, "X_PORT")


def test_who_holds_it_is_shown_printable_and_short(tmp_path: Path) -> None:
    """That it ends with its process: tests/integration/experiments/loop/test_controller.py."""
    with hold(tmp_path / "lock", "a\x1b[2J\n" + "b" * 10_000):
        with pytest.raises(Held, match=r"a\[2Jbbb.*"):
            hold(tmp_path / "lock", "scenario2")
        assert len(holder(tmp_path / "lock")) <= 300
    assert holder(tmp_path / "lock") == ""


def test_other_users_may_hold_it_next(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        hold(tmp_path / "lock", "one").close()
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to"])
def test_no_link_leads_to_another_file(tmp_path: Path, make: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    getattr(tmp_path / "lock", make)(precious)
    with pytest.raises(OSError, match="lock"):
        hold(tmp_path / "lock", "scenario1")
    assert holder(tmp_path / "lock") == ""
    assert precious.read_text() == "precious"
