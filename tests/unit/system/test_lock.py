"""A file that one process holds: who holds it, and that it is no other file."""

import os
from pathlib import Path

import pytest

from looplab.system.lock import Held, hold, holder


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
