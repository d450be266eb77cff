"""The small tools of the host side: running programs, showing progress, linting."""

from __future__ import annotations

import io
import subprocess
import time
from pathlib import Path

import pytest
from support.terminal import Terminal
from support.waiting import until

from looplab.errors import EXIT_INVALID
from looplab.lab.commands import lint
from looplab.lab.commands import test as testing
from looplab.lab.commands.lint import FAILED, PASSED, SKIPPED, Linter, is_shell, project_files, run_linter
from looplab.lab.programs import NOT_FOUND, TIMED_OUT, call, follow
from looplab.system import terminal as steps
from looplab.system.terminal import Step, show_duration


def test_a_program_that_is_not_there_is_an_outcome() -> None:
    for outcome in (call(["no-such-program"]), follow(["no-such-program"], print, timeout_s=5)):
        assert outcome.code == NOT_FOUND
        assert not outcome.found
        assert "not found" in outcome.said


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
    assert done.said == "two"


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


def test_a_step_in_a_log_has_two_lines() -> None:
    stream = io.StringIO()
    with Step("Building", stream=stream):
        pass
    assert stream.getvalue().splitlines() == ["Building ...", "Building: done (0 s)"]


def test_a_step_that_fails_says_so() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="x"), Step("Building", stream=stream):
        raise ValueError("x")
    assert stream.getvalue().splitlines()[-1] == "Building: failed (0 s)"


def test_a_step_in_a_terminal_shows_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "REFRESH_S", 0.02)
    stream = Terminal()
    with Step("Building", expected_s=100, stream=stream) as step:
        until(lambda: "left" in stream.getvalue(), "the time left", 20)
        step.advance(1, 2, "step 1 of 2")
        until(lambda: "step 1 of 2" in stream.getvalue(), "the step", 20)
    shown = [line.removeprefix("\x1b[K") for line in stream.getvalue().split("\r")]
    assert max(map(len, shown)) <= 80
    assert shown[-1] == "Building: done (0 s)\n"


def test_what_is_a_shell_script(tmp_path: Path) -> None:
    for name, text, shell in (
        ("lab", "#!/bin/sh\n", True),
        ("run", "#!/usr/bin/env bash\n", True),
        ("a.sh", "", True),
        ("tool", "#!/usr/bin/env python3\n", False),
        ("Dockerfile", "FROM x\n", False),
        ("a.py", "#!/bin/sh\n", False),
    ):
        (tmp_path / name).write_text(text)
        assert is_shell(tmp_path / name) is shell, name


def test_git_decides_which_files_are_the_projects(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("ignored\n")
    for name in ("kept.sh", "ignored"):
        (tmp_path / name).touch()
    assert [path.name for path in project_files(tmp_path)] == [".gitignore", "kept.sh"]


def test_results_of_a_linter(tmp_path: Path) -> None:
    script = tmp_path / "a.sh"
    script.write_text("fine\n")
    finds = Linter("grep", ("grep", "-L", "fine"), is_shell)
    assert run_linter(tmp_path, Linter("true", ("true",), is_shell), [script]).state == PASSED
    assert run_linter(tmp_path, Linter("false", ("false",)), [script]).state == FAILED
    assert run_linter(tmp_path, finds, []).state == SKIPPED
    absent = run_linter(tmp_path, Linter("x", ("no-such-linter",)), [script])
    assert (absent.state, absent.detail) == (SKIPPED, "no-such-linter is not installed")
    unset = run_linter(tmp_path, Linter("true", ("true",), settings=".no-settings"), [script])
    assert unset.state == SKIPPED


def test_gofmt_complains_without_an_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint.shutil, "which", lambda program: program)
    linter = Linter("gofmt", ("echo",), lambda path: path.suffix == ".go")
    assert run_linter(tmp_path, linter, [tmp_path / "a.go"]).state == FAILED


@pytest.mark.parametrize(("clean", "passed", "code"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_lint_and_tests_both_count(monkeypatch: pytest.MonkeyPatch, clean: bool, passed: bool, code: int) -> None:
    ran: list[str] = []
    monkeypatch.setattr(testing, "lint", lambda root: clean)
    monkeypatch.setattr(testing, "run_tests", lambda unit, rest, root: bool(ran.append("tests")) or passed)
    assert testing.test(True, []) == code
    assert ran == ["tests"]
    assert code in (0, EXIT_INVALID)


def test_which_tests_are_run(tmp_path: Path) -> None:
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/e2e").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (tmp_path / "tests/unit/test_good.py").write_text("def test_good():\n    pass\n")
    (tmp_path / "tests/e2e/test_bad.py").write_text("def test_bad():\n    assert False\n")
    assert testing.run_tests(True, ["-n0"], tmp_path)
    assert not testing.run_tests(False, [], tmp_path)
    assert testing.run_tests(False, ["tests/unit/test_good.py"], tmp_path)
    assert not testing.run_tests(True, ["-n0", "-k", "nothing"], tmp_path)
