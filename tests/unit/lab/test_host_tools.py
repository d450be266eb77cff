"""The small tools of the host side: running programs, showing progress, revisions, owners."""

import os
from pathlib import Path

import pytest
from support.terminal import Terminal
from support.tools import make_repository

from looplab.lab.checkout import Lab
from looplab.lab.cli import main
from looplab.lab.owner import give_back
from looplab.lab.programs import follow
from looplab.lab.progress import follow_run


def test_an_interrupted_watcher_leaves_no_program(tmp_path: Path) -> None:
    pid: list[int] = []

    def interrupt(line: str) -> None:
        pid.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", "echo $$; exec sleep 60"], interrupt, timeout_s=90)
    assert not Path(f"/proc/{pid[0]}").exists()


def test_a_terminal_sees_one_line_that_rewrites_itself() -> None:
    terminal = Terminal()
    whole = {"event": "repetition", "cell": "20 ms QoS 1 3/10", "messages": 1000, "seconds_left": 0, "elapsed_s": 0}
    events = [{**whole, "messages_done": done} for done in (250, 500, 1000)]
    events += [{"event": "text", "text": "a line"}, {"event": "finished"}]
    last = follow_run(events, terminal)
    assert (last["repetition"], last["finished"]) == (events[2], events[4])
    *_, half, full, line, end = terminal.getvalue().split("\r\x1b[K")
    assert "50%" in half
    assert full.startswith("  [########################] 100%  20 ms QoS 1 3/10")
    assert (line, end, terminal.getvalue().count("\n")) == ("a line\n", "", 1)


def test_a_revision_names_the_commit_and_says_if_files_differ(tmp_path: Path) -> None:
    assert Lab(tmp_path).revision() == "no git checkout"
    (tmp_path / "module.py").write_text("one")
    make_repository(tmp_path)
    clean = Lab(tmp_path).revision()
    assert len(clean) == 40
    (tmp_path / "module.py").write_text("two")
    assert Lab(tmp_path).revision() == f"{clean}+changes"


USER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files that are not its own")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A user's checkout into which root wrote."""
    root = tmp_path / "lab"
    (root / "results/run").mkdir(parents=True)
    (root / "results/run/run.json").write_text("{}")
    os.chown(root, USER, USER)
    return root


@needs_root
def test_what_root_wrote_is_given_to_the_owner(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_ROOT", str(root))
    assert main(["show", "no-such-run"]) != 0
    assert {path.stat().st_uid for path in [root, *root.rglob("*")]} == {USER}


@needs_root
def test_nothing_outside_and_nothing_of_others_is_given_away(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("root's")
    (root / "link").symlink_to(outside)
    (root / "name").hardlink_to(outside / "secret")
    os.chown(root / "results", 54321, 54321)
    give_back(root)
    assert {path.stat().st_uid for path in (outside, outside / "secret")} == {0}
    assert ((root / "link").lstat().st_uid, (root / "results").stat().st_uid) == (USER, 54321)
