"""The first part of `./lab test`: the size of each room, then the linters that .pre-commit-config.yaml lists."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from looplab.lab.class_archives import checkout_files


def check_rooms(root: Path, files: Sequence[Path]) -> bool:
    """Print the lines of Python of each room in pyproject.toml; return whether each is within its limit."""
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
    return not outgrown


def lint(root: Path, programs: Path) -> bool:
    """Print sizes of rooms, and a line for each linter with its complaints; return whether all passed.

    `programs` is the folder that has pre-commit, which needs no network for hooks of this checkout.
    """
    # New files that git would add count, too.
    names = checkout_files(root, "--others", "--exclude-standard")
    small = check_rooms(root, [root / name for name in names])
    # In the user's home its files would be root's, where root lints.
    environment = {**os.environ, "PRE_COMMIT_HOME": str(root / ".cache/pre-commit")}
    command = [str(programs / "pre-commit"), "run", "--color=never", "--files", *names]
    # The linters write to the same stream.
    sys.stdout.flush()
    passed = subprocess.run(command, cwd=root, env=environment, check=False).returncode == 0
    print(f"lint: {'all passed' if small and passed else 'FAILED'}", flush=True)
    return small and passed
