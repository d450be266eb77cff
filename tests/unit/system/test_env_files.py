"""Env files are read as Compose reads them; a line or a value that means nothing is named."""

from pathlib import Path

import pytest

from looplab.errors import EXIT_USAGE, LabError
from looplab.system.env_files import expand, read_env, read_port


def test_env_lines(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# comment\nA=1\n\n B = two words \nC='quoted'\nD=\nE=x=y\n")
    assert read_env(path) == {"A": "1", "B": "two words", "C": "quoted", "D": "", "E": "x=y"}


def test_comments_behind_values_are_read_as_compose_reads_them(tmp_path: Path) -> None:
    """The values are what Compose 2.26 showed for these lines."""
    lines = ["A=50 # few", 'B="a # b" # c', "C='x'", "D=a#b", "export E=1", "F = 7", "H=# nothing", "I=it's", " # K=1"]
    wanted = {"A": "50", "B": "a # b", "C": "x", "D": "a#b", "E": "1", "F": "7", "H": "# nothing", "I": "it's"}
    (tmp_path / ".env").write_text("\n".join(lines))
    assert read_env(tmp_path / ".env") == wanted


def test_a_file_as_an_editor_on_windows_saves_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbfROBOT=usb\r\nQOS=1\r\n")
    assert read_env(path) == {"ROBOT": "usb", "QOS": "1"}


@pytest.mark.parametrize("line", ["MESSAGES: 100", "JUST TEXT", "=5"])
def test_a_line_that_sets_nothing_is_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"# comment\n\nQOS=1\n{line}\n")
    with pytest.raises(LabError, match="line 4") as caught:
        read_env(path)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_file_that_is_no_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "params.env"
    path.write_bytes(b"# two lines\nTITLE=Pr\xfcfung\n")
    with pytest.raises(LabError, match="line 2") as caught:
        read_env(path)
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("text", "environment", "value"),
    [
        ("${MESSAGES:-100}", {}, "100"),
        ("${MESSAGES:-100}", {"MESSAGES": ""}, "100"),
        ("${MESSAGES:-100}", {"MESSAGES": "7"}, "7"),
        ("${MESSAGES}", {}, ""),
        ("${QOS:-0 1 2}", {}, "0 1 2"),
        ("a${X:-1}b${Y:-2}", {"Y": "9"}, "a1b9"),
        ("plain", {"plain": "no"}, "plain"),
    ],
)
def test_references_expand_as_compose_expands_them(text: str, environment: dict[str, str], value: str) -> None:
    assert expand({"NAME": text}, environment) == {"NAME": value}


@pytest.mark.parametrize(("text", "default", "port"), [("1883", None, 1883), (" 1 ", None, 1), ("", 9101, 9101)])
def test_a_port(text: str, default: int | None, port: int) -> None:
    assert read_port({"X_PORT": text}, "X_PORT", default) == port


@pytest.mark.parametrize("text", ["", "0", "65536", "http", "-1", "1883/tcp", "²"])
def test_what_is_not_a_port_is_named_with_its_variable(text: str) -> None:
    with pytest.raises(LabError, match=f"`X_PORT={text}`") as caught:
        read_port({"X_PORT": text}, "X_PORT")
    assert caught.value.exit_code == EXIT_USAGE
