"""./lab test: lint, then the tests; the test runner's own summary is the last line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_INVALID
from looplab.lab.commands.lint import lint

ROOT = Path(__file__).resolve().parents[4]
# Most tests wait for something. What may run beside what is in tests/conftest.py; `-- -n0` runs them one by one.
AT_ONCE = ("-n2", "--dist=loadscope", "--no-loadscope-reorder")


def test(unit: bool, rest: Sequence[str]) -> int:
    """Both always run, so that one mistake does not hide another; good only when both are."""
    clean = lint(ROOT)
    passed = run_tests(unit, rest, ROOT)
    # pytest's own codes (5: nothing collected) are no codes of the lab: all of them mean a failed check.
    return 0 if clean and passed else EXIT_INVALID


def run_tests(unit: bool, rest: Sequence[str], root: Path) -> bool:
    """`rest` goes to pytest as it is; a path in it replaces the default choice, which two processes run."""
    named = any(not word.startswith("-") and (root / word.partition("::")[0]).exists() for word in rest)
    choice = [] if named else ["tests/unit"] if unit else ["tests"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "pytest", *choice, *(() if named else AT_ONCE), *rest]
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode == 0


# pytest would take this module's function for a test where a test module imports it.
test.__test__ = False  # type: ignore[attr-defined]
