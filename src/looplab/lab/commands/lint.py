"""The linters of the lab, in one list, and the size of each room; the first part of `./lab test`."""

import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

from looplab.lab.class_archives import checkout_files
from looplab.lab.programs import call

AT_ONCE = 2
# Figures and pictures hold no words of ours.
NO_PROSE = (".csv", ".json", ".png", ".svg")
SHELL_STARTS = (b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash", b"#!/usr/bin/env sh")


def is_shell(path: Path) -> bool:
    """Return whether a file is a shell script, by its suffix or, without one, its first line."""
    return path.suffix == ".sh" or (not path.suffix and path.read_bytes().startswith(SHELL_STARTS))


def has_suffix(*suffixes: str) -> Callable[[Path], bool]:
    """Return a filter for files with one of `suffixes`."""
    return lambda path: path.suffix in suffixes


class Linter(NamedTuple):
    """A program of the lab's Python environment; `files` picks its arguments, None checks the whole project."""

    name: str
    command: Sequence[str]
    files: Callable[[Path], bool] | None = None


# The image of the flood runs gofmt, go vet and go test while it is built: see images/flood/Dockerfile.
LINTERS = (
    Linter("mypy", ("mypy", "--no-error-summary")),
    Linter("import-linter", ("lint-imports", "--no-cache")),
    Linter("ruff check", ("ruff", "check", "--quiet", ".")),
    Linter("ruff format", ("ruff", "format", "--check", "--quiet", ".")),
    Linter("yamllint", ("yamllint", "--strict"), has_suffix(".yaml", ".yml")),
    Linter("shellcheck", ("shellcheck",), is_shell),
    Linter("clang-format", ("clang-format", "--dry-run", "--Werror"), has_suffix(".c", ".h", ".cpp", ".ino")),
    Linter("hadolint", ("hadolint", "--no-color"), lambda path: path.name.endswith("Dockerfile")),
    Linter("codespell", ("codespell",), lambda path: path.suffix not in NO_PROSE),
    # It checks the project's own files and headings alone, so that it works without a network.
    Linter("lychee", ("lychee", "--offline", "--include-fragments", "--no-progress", "--quiet"), has_suffix(".md")),
)


def complaint(linter: Linter, root: Path, programs: Path, files: Sequence[Path]) -> str:
    """Return what the linter finds wrong, "" if nothing; `programs` is the folder that has the linter."""
    program, *options = linter.command
    chosen = [str(path.relative_to(root)) for path in files if linter.files and linter.files(path)]
    # mypy and import-linter find the package by PYTHONPATH.
    environment = {"PYTHONPATH": str(root / "src")}
    command = [str(programs / program), *options, *chosen]
    done = call(command, timeout_s=600, directory=str(root), environment=environment)
    return "" if done.good else (done.stdout + done.stderr).strip() or f"exit code {done.code}"


def check_rooms(root: Path, files: Sequence[Path]) -> list[str]:
    """Print the lines of Python of each room in pyproject.toml; return the rooms that have outgrown their limit."""
    rooms = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["looplab"]["rooms"]
    sizes = {path: path.read_bytes().count(b"\n") for path in files if path.suffix == ".py"}
    outgrown = []
    print(f"{'lines of Python':<16}{'now':>6}{'limit':>7}")
    for name, room in rooms.items():
        folders = [root / folder for folder in room["folders"]]
        lines = sum(size for path, size in sizes.items() if any(map(path.is_relative_to, folders)))
        print(f"{name:<16}{lines:>6}{room['limit']:>7}")
        if lines > room["limit"]:
            outgrown.append(name)
    if outgrown:
        print(f"Make {', '.join(outgrown)} smaller. Only a commit `budget: …` with its reason may raise a limit.")
    return outgrown


def lint(root: Path, programs: Path, linters: Sequence[Linter] = LINTERS) -> bool:
    """Print sizes of rooms; run all linters, print a line for each and its complaints; return whether all passed."""
    # New files that git would add count, too.
    files = [root / name for name in checkout_files(root, "--others", "--exclude-standard")]
    failed = [f"size of {room}" for room in check_rooms(root, files)]
    check = partial(complaint, root=root, programs=programs, files=files)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for linter, fault in zip(linters, pool.map(check, linters), strict=True):
            print(f"lint {linter.name:<14} {'FAILED' if fault else 'passed'}", flush=True)
            if fault:
                failed.append(linter.name)
                print(indent(fault, "  | "), flush=True)
    print(f"lint: {'FAILED: ' + ', '.join(failed) if failed else 'all passed'}", flush=True)
    return not failed
