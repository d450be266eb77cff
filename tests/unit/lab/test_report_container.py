"""Commands that run in the image of the report: how its container is started; the engine is a stand-in."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import EXIT_INVALID, EXIT_MACHINE
from looplab.lab.checkout import Lab
from looplab.lab.cli import main

IMAGE = "looplab/report:0.1.0"
Start = Callable[..., list[str]]


@pytest.fixture
def root(tmp_path: Path, programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose engine writes down how it is called, and writes a page as the report does."""
    root = tmp_path / "lab"
    (root / "results").mkdir(parents=True)
    (root / ".env").touch()
    programs.script("docker", f"echo page >{root}/report/index.html 2>/dev/null", "exit ${CODE:-0}")
    monkeypatch.setenv("LAB_ROOT", str(root))
    monkeypatch.setattr(Lab, "ready_report", lambda _lab: IMAGE)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def start(root: Path, programs: fakes.Programs) -> Start:
    """Run a command and return the words that the engine got."""

    def run(*words: str, code: int = 0) -> list[str]:
        assert main(words) == code
        return programs.calls("docker")[-1].split()

    return run


def test_the_container_has_no_rights_and_is_the_users_own(start: Start, root: Path) -> None:
    words = start("report")
    assert {"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none", "--memory=2g"} <= {
        *words
    }
    owner = root.stat() if os.getuid() == 0 else None
    assert f"--user={owner.st_uid if owner else os.getuid()}:{owner.st_gid if owner else os.getgid()}" in words
    assert f"--volume={root}/results:{root}/results:ro" in words
    assert words[-2:] == [IMAGE, "report"]
    # Root of a rootless engine is who started it; user 1000 would be a stranger in the checkout.
    (root / ".env.machine").write_text("LAB_UID=0\nLAB_GID=0\n")
    assert "--user=0:0" in start("report")
    assert Lab(root).user() == {}


def test_paths_outside_the_checkout_are_mounted(start: Start, root: Path) -> None:
    outside, out = root.parent / "of ada", root.parent / "new/pages"
    outside.mkdir()
    words = " ".join(start("report", "of ada", "20260101T000000Z-scenario1", "--out", "new/pages"))
    assert f"--volume={outside}:{outside}:ro" in words
    assert f"--volume={out}:{out} " in words
    assert out.is_dir()
    assert f"--workdir={root.parent}" in words
    assert words.endswith(f"{IMAGE} report of ada 20260101T000000Z-scenario1 --out new/pages")
    read_only = re.findall(r"--volume=(\S+ ?\S*):\1:ro", words)
    assert read_only == [str(root), f"{root}/results", str(outside)]


def test_a_strangers_run_meets_no_secret_and_writes_nothing_else(start: Start, root: Path) -> None:
    (root / "secrets").mkdir()
    written = {"report": ["report"], "check": ["answers", "report"], "hand-in": []}
    for words in (["report"], ["check", "scenario1"], ["hand-in", "scenario1", "--name", "ada"]):
        given = start(*words)
        assert f"--tmpfs={root}/secrets" in given
        assert f"--tmpfs={root}/rpi/secrets" not in given
        assert (f"--volume={root}:{root}:ro" in given) == (words[0] != "hand-in")
        assert "--network=none" in given
        assert sorted(
            name for name in ("report", "answers") if f"--volume={root / name}:{root / name}" in given
        ) == sorted(written[words[0]])
    # It asks the exporter.
    assert "--network=host" in start("watch")


def test_exit_codes_of_the_container_pass(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for code, expected in ((1, EXIT_INVALID), (2, 2), (3, EXIT_MACHINE), (125, EXIT_MACHINE), (137, EXIT_MACHINE)):
        monkeypatch.setenv("CODE", str(code))
        start("check", "scenario1", code=expected)
    assert f"The container of {IMAGE} ended with exit code 137." in capsys.readouterr().err
