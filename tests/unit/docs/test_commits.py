"""Limits of rooms only fall; actions of CI are pinned."""

import re
import subprocess

import pytest
from support.places import ROOT

# A room's line in pyproject.toml, in a patch.
LIMIT = re.compile(r"^([-+])(\w+) = \{.*\blimit = (\d+)\}", re.MULTILINE)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_limit_is_raised_by_a_budget_commit_alone() -> None:
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the history is not here: a checkout without .git, or a shallow one")
    words = ("--no-merges", "--max-count=20", "--patch", "--unified=0", "--format=%x00%B%x00", "--", "pyproject.toml")
    _, *found = git("log", *words).split("\0")
    for message, patch in zip(found[::2], found[1::2], strict=True):
        before, after = (
            {name: int(limit) for sign, name, limit in LIMIT.findall(patch) if sign == side} for side in "-+"
        )
        raised = [name for name in before.keys() & after.keys() if after[name] > before[name]]
        subject, _, body = message.partition("\n")
        assert not raised or (subject.startswith("budget:") and body.strip()), f"{subject} raises {raised}"


def test_every_action_of_ci_is_a_commit() -> None:
    """A tag can be moved."""
    found = [line for path in (ROOT / ".github/workflows").iterdir() for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in found if "uses:" in line]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", one) for one in used), used
