"""Run a program of the host and hand back what it said; never raises for a program that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NOT_FOUND = 127
TIMED_OUT = 124


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
    def found(self) -> bool:
        return self.code != NOT_FOUND

    @property
    def said(self) -> str:
        """The last line that says why: standard error first, then standard output."""
        for stream in (self.stderr, self.stdout):
            lines = [line.strip() for line in stream.splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return f"exit code {self.code}"


def is_there(program: str) -> bool:
    return shutil.which(program) is not None


def call(
    command: Sequence[str],
    *,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    feed: str | None = None,
    own_session: bool = False,
) -> Outcome:
    """Run `command` to its end, both streams kept; C locale so that messages can be recognised.

    In a session of its own no Ctrl-C of the terminal reaches it.
    """
    settings = {**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})}
    words = tuple(command)
    try:
        done = subprocess.run(
            words,
            input=feed if feed is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=settings,
            cwd=directory,
            start_new_session=own_session,
            check=False,
        )
    except FileNotFoundError:
        return Outcome(words, NOT_FOUND, "", f"{words[0]}: not found")
    except PermissionError:
        return Outcome(words, 126, "", f"{words[0]}: cannot be executed")
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
    """Run long work and hand each line over as it comes, both streams as one, as a person would see it."""
    words = tuple(command)
    settings = {**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=settings,
            cwd=directory,
        )
    except FileNotFoundError:
        return Outcome(words, NOT_FOUND, "", f"{words[0]}: not found")
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
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        watchdog.cancel()
    if out_of_time.is_set():
        return Outcome(words, TIMED_OUT, "".join(lines), f"{words[0]}: not finished within {timeout_s:g} s")
    return Outcome(words, code, "".join(lines), "")
