"""./lab itself: it finds its folder and a Python, without a package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

CLI = """import os, sys
print("arguments", sys.argv[1:])
print("python", sys.executable)
print("path", os.environ["PYTHONPATH"])
raise SystemExit(7)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout whose cli prints how it was started."""
    root = tmp_path / "a folder"
    (root / "src/looplab/lab").mkdir(parents=True)
    shutil.copy(ROOT / "lab", root / "lab")
    for name in ("looplab", "looplab/lab"):
        (root / "src" / name / "__init__.py").touch()
    (root / "src/looplab/lab/cli.py").write_text(CLI)
    return root


def launch(command: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
    # This Python itself: a version manager's wrapper takes longer than what ./lab does.
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **changes}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd="/", timeout=120)


def test_a_command_starts_without_a_package(checkout: Path) -> None:
    link = checkout.parent / "link"
    link.symlink_to(checkout / "lab")
    done = launch([str(link), "run", "two words"])
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.splitlines()[0] == "arguments ['run', 'two words']"
    assert f"path {checkout / 'src'}" in done.stdout
    assert not (checkout / ".venv").exists()


def test_no_python(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("head", "grep", "printf", "dirname", "readlink"):
        (tools / name).symlink_to(str(shutil.which(name)))
    for found in ("none", "Python 3.10.12"):
        done = launch(["/bin/sh", str(checkout / "lab")], PATH=str(tools))
        assert (done.returncode, done.stdout) == (3, "")
        assert f"Python 3.11 or later is needed; {found} was found." in done.stderr
        assert "Ubuntu 22.04: sudo apt-get install python3.11" in done.stderr
        assert max(map(len, done.stderr.splitlines())) <= 80
        # Ubuntu 22.04's own.
        old = tools / "python3"
        old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12\n')
        old.chmod(0o755)


def test_windows_line_ends_and_a_path_that_python_cannot_search_are_named(checkout: Path) -> None:
    odd = checkout.rename(checkout.with_name("c:d"))
    done = launch([str(odd / "lab"), "list"])
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{odd} has a colon" in done.stderr
    lab = odd / "lab"
    lab.write_bytes(lab.read_bytes().replace(b"\n", b"\r\n"))
    done = launch(["sh", str(lab)])
    assert (done.returncode, "Windows line ends" in done.stderr) == (3, True)
