"""A file that one process holds: who is told, and that the kernel releases it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.system.lock import Held, hold, holder

WORDS = re.compile(r"scenario1, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
HOLDER = "import sys, pathlib, looplab.system.lock as lock; f = lock.hold(pathlib.Path(sys.argv[1]), 'scenario1'); "


def another_process(path: Path) -> subprocess.Popen[str]:
    """A process that holds `path` until it is killed."""
    script = f"{HOLDER}print('held', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_is_held_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path) as process:
        with pytest.raises(Held, match=WORDS):
            hold(path, "scenario2")
        assert WORDS.fullmatch(holder(path))
        process.kill()
    assert holder(path) == ""
    # What is shown of it is printable and short.
    with hold(path, "a\x1b[2J\n" + "b" * 10_000):
        assert holder(path).startswith("a[2Jbbb")
        assert len(holder(path)) <= 300
    assert holder(path) == ""


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
