"""Every linter of the lab, each named with its result; a tool that is not here is said to be skipped."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.lab.programs import call

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
COMPLAINT_LINES = 40
SKIPPED_FOLDERS = {".git", ".venv", ".cache", "results", "node_modules", "build"}
SHELL_STARTS = (b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash", b"#!/usr/bin/env sh")


@dataclass(frozen=True)
class Linter:
    """`files` picks what it looks at; one that looks at the whole project has None."""

    name: str
    command: Sequence[str]
    files: Callable[[Path], bool] | None = None
    # A file without which the tool would judge by a taste that is not the project's.
    settings: str = ""


@dataclass(frozen=True)
class Result:
    name: str
    state: str
    detail: str = ""


def is_shell(path: Path) -> bool:
    if path.suffix in (".sh", ".bash"):
        return True
    if path.suffix:
        return False
    try:
        with path.open("rb") as file:
            return file.read(24).startswith(SHELL_STARTS)
    except OSError:
        return False


def has_suffix(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: path.suffix in suffixes


def linters() -> list[Linter]:
    python = sys.executable
    return [
        Linter("ruff check", (python, "-m", "ruff", "check", "--quiet", ".")),
        Linter("ruff format", (python, "-m", "ruff", "format", "--check", "--quiet", ".")),
        Linter("mypy", (python, "-m", "mypy", "--no-error-summary")),
        Linter("shellcheck", ("shellcheck",), is_shell),
        Linter("yamllint", (python, "-m", "yamllint", "--strict"), has_suffix(".yaml", ".yml")),
        Linter(
            "clang-format",
            ("clang-format", "--dry-run", "--Werror"),
            has_suffix(".c", ".h", ".cpp", ".ino"),
            ".clang-format",
        ),
        Linter("gofmt", ("gofmt", "-l"), has_suffix(".go")),
        Linter("hadolint", ("hadolint",), lambda path: path.name == "Dockerfile"),
    ]


def project_files(root: Path) -> list[Path]:
    """What git knows or would add; without git, what lies here."""
    listing = call(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], directory=str(root))
    if listing.good:
        names = [name for name in listing.stdout.split("\0") if name]
        return sorted(path for name in names if (path := root / name).is_file())
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        found += [Path(folder) / name for name in files]
    return sorted(found)


def run_linter(root: Path, linter: Linter, files: Sequence[Path]) -> Result:
    """`gofmt -l` exits 0 and names the files that differ: any word of a file linter is a complaint."""
    program = linter.command[0]
    if shutil.which(program) is None:
        return Result(linter.name, SKIPPED, f"{program} is not installed")
    if linter.settings and not (root / linter.settings).exists():
        return Result(linter.name, SKIPPED, f"there is no {linter.settings}")
    command = list(linter.command)
    if linter.files is not None:
        chosen = [str(path.relative_to(root)) for path in files if linter.files(path)]
        if not chosen:
            return Result(linter.name, SKIPPED, "no such files")
        command += chosen
    done = call(command, timeout_s=600, directory=str(root), environment={"PYTHONPATH": str(root / "src")})
    said = (done.stdout + done.stderr).strip()
    if done.good and not (linter.name == "gofmt" and said):
        return Result(linter.name, PASSED)
    return Result(linter.name, FAILED, said or f"exit code {done.code}")


def complaints(detail: str) -> str:
    """The first ones; a file in another style would otherwise bury every other tool's word."""
    lines = [f"  | {line}" for line in detail.splitlines()]
    more = [f"  | ... and {len(lines) - COMPLAINT_LINES} more lines"] if len(lines) > COMPLAINT_LINES else []
    return "\n".join(lines[:COMPLAINT_LINES] + more)


def lint(root: Path) -> bool:
    """Run them all, print one line each and the complaints; True when none failed."""
    files = project_files(root)
    good = True
    for linter in linters():
        result = run_linter(root, linter, files)
        reason = f" ({result.detail})" if result.state == SKIPPED else ""
        print(f"lint {result.name:<14} {result.state}{reason}", flush=True)
        if result.state == FAILED:
            good = False
            print(complaints(result.detail), flush=True)
    print(f"lint: {'all passed' if good else 'FAILED'}", flush=True)
    return good
