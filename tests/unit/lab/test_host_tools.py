"""The small tools of the host side: running programs, showing progress, linting."""

import io
import subprocess
import time
from pathlib import Path

import pytest
from support.terminal import Terminal
from support.waiting import until

from looplab.lab.commands.lint import lint
from looplab.lab.programs import NOT_FOUND, TIMED_OUT, call, follow
from looplab.system.terminal import Step
from looplab.system.words import show_duration


def test_a_program_that_is_not_there_is_an_outcome() -> None:
    for outcome in (call(["no-such-program"]), follow(["no-such-program"], print, timeout_s=5)):
        assert outcome.code == NOT_FOUND
        assert not outcome.exists
        assert "not found" in outcome.reason


def test_a_program_that_hangs_is_ended() -> None:
    begun_s = time.monotonic()
    assert call(["sleep", "30"], timeout_s=0.2).code == TIMED_OUT
    assert follow(["sleep", "30"], print, timeout_s=0.2).code == TIMED_OUT
    assert time.monotonic() - begun_s < 10


def test_lines_come_while_the_program_runs() -> None:
    seen: list[str] = []
    done = follow(["sh", "-c", "echo one; echo two >&2; exit 3"], seen.append, timeout_s=20)
    assert seen == ["one", "two"]
    assert done.code == 3
    assert done.reason == "two"


def test_an_interrupted_watcher_leaves_no_program(tmp_path: Path) -> None:
    pid: list[int] = []

    def interrupt(line: str) -> None:
        pid.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", "echo $$; exec sleep 60"], interrupt, timeout_s=90)
    assert not Path(f"/proc/{pid[0]}").exists()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (600, "10 min 00 s")])
def test_durations_as_a_person_says_them(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


def test_a_step_in_a_log_has_two_lines_and_tells_a_failure() -> None:
    stream = io.StringIO()
    with Step("Building", stream=stream):
        pass
    with pytest.raises(ValueError, match="x"), Step("Building", stream=stream):
        raise ValueError("x")
    lines = ["Building ...", "Building: done (0 s)", "Building ...", "Building: failed (0 s)"]
    assert stream.getvalue().splitlines() == lines


def test_a_step_in_a_terminal_shows_the_time_left() -> None:
    stream = Terminal()
    with Step("Building", expected_s=100, stream=stream, refresh_s=0.02) as step:
        until(lambda: "left" in stream.getvalue(), "the time left", 20)
        step.advance(1, 2, "step 1 of 2")
        until(lambda: "step 1 of 2" in stream.getvalue(), "the step", 20)
    shown = [line.removeprefix("\x1b[K") for line in stream.getvalue().split("\r")]
    assert max(map(len, shown)) <= 80
    assert shown[-1] == "Building: done (0 s)\n"


@pytest.mark.parametrize(("lines", "result"), [(3, "all passed"), (4, "FAILED: size of house")])
def test_a_room_that_outgrows_its_limit_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, result: str
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    table = '[tool.looplab.rooms]\nhouse = {folders = ["src/a", "src/b"], limit = 3}\n'
    for name, text in (
        ("pyproject.toml", table), ("src/a/x.py", "one\n"), ("src/b/c/y.py", "one\n" * (lines - 1)),
        ("src/a/z.txt", "no Python\n"), ("src/aa/x.py", "another room\n"),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert lint(tmp_path, Path("/usr/bin"), []) is (lines == 3)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in printed if line.startswith("house")] == [["house", str(lines), "3"]]
    assert printed[-1] == f"lint: {result}"
