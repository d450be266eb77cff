"""Run programs of the host; a program that fails is an outcome, never an exception."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.errors import MachineError
from looplab.system.terminal import Step

NOT_FOUND = 127
TIMED_OUT = 124
SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
SCRIPT_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Outcome:
    """Exit code and both streams of a finished program."""

    command: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def good(self) -> bool:
        return self.code == 0

    @property
    def reason(self) -> str:
        """The last line that gives a reason: of standard error, else of standard output."""
        lines = [line.strip() for line in (self.stdout + "\n" + self.stderr).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def call(
    command: Sequence[str],
    *,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    own_session: bool = False,
) -> Outcome:
    """Run `command` to its end and return both streams; in the C locale, so that messages can be recognised.

    With `own_session` a Ctrl-C at the terminal does not reach the program.
    """
    words = tuple(command)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=_settings(environment),
            cwd=directory,
            start_new_session=own_session,
            check=False,
        )
    except OSError as error:
        return _not_started(words, error)
    except subprocess.TimeoutExpired:
        return Outcome(words, TIMED_OUT, "", f"{words[0]}: no answer within {timeout_s:g} s")
    return Outcome(words, done.returncode, done.stdout, done.stderr)


def follow(
    command: Sequence[str],
    on_line: Callable[[str], None],
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> Outcome:
    """Run long work and hand over each line as it comes, both streams as one."""
    words = tuple(command)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_settings(environment),
            cwd=directory,
        )
    except OSError as error:
        return _not_started(words, error)
    lines: list[str] = []
    out_of_time = threading.Event()

    def give_up() -> None:
        out_of_time.set()
        process.kill()

    watchdog = threading.Timer(timeout_s, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            on_line(line.rstrip("\n"))
        code = process.wait()
        if out_of_time.is_set():
            return Outcome(words, TIMED_OUT, "".join(lines), f"{words[0]}: not finished within {timeout_s:g} s")
        return Outcome(words, code, "".join(lines), "")
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def run_script(
    name: str, *words: str, title: str, expected_s: float = 0.0, environment: Mapping[str, str] | None = None
) -> str:
    """Run scripts/`name` with progress, return what it prints; LabError (exit code 3) with the message and remedy that
    it ends with.

    The scripts end with two lines: "name: what happened" and, indented, what to do.
    """
    with Step(title, expected_s) as step:
        command, note = [str(SCRIPTS / name), *words], lambda line: step.note(line.strip())
        done = follow(command, note, timeout_s=SCRIPT_TIMEOUT_S, environment=environment)
        if not done.good:
            message, _, remedy = done.stdout.strip().rpartition("\n  ")
            reason = message.rpartition("\n")[2].partition(": ")[2] or done.reason
            remedy = remedy.strip() or f"Run scripts/{name} by hand to see everything."
            raise MachineError(reason, remedy)
    return done.stdout


def _settings(environment: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})}


def _not_started(words: tuple[str, ...], error: OSError) -> Outcome:
    return Outcome(words, NOT_FOUND, "", f"{words[0]}: not found, or not to be executed ({error.strerror})")
