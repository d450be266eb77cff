"""./lab report --open: the desktop's own opener, or the address."""

from pathlib import Path

import pytest

from looplab.errors import MachineError
from looplab.lab.desktop import open_page


@pytest.fixture
def opener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop whose opener writes down what it opens, and fails if there is a file `broken`."""
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n[ ! -e {tmp_path}/broken ]\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":7")
    return tmp_path


def test_without_a_desktop_the_address_is_printed(
    opener: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    open_page(opener / "a page.html")
    assert capsys.readouterr().out.splitlines()[-1] == f"file://{opener}/a%20page.html"
    assert not (opener / "opened").exists()


def test_an_opener_that_fails_is_named_with_the_address(opener: Path) -> None:
    (opener / "broken").touch()
    with pytest.raises(MachineError, match="`xdg-open` could not open the report: exit code 1") as raised:
        open_page(opener / "index.html")
    assert f"file://{opener}/index.html" in str(raised.value)
