"""Commits: a subject that a stranger understands, and limits of rooms that only fall."""

import re
import subprocess
import tomllib

import pytest
import yaml
from support.places import ROOT

(HOOK,) = (
    hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repo["hooks"]
    if hook["id"] == "commit-subject"
)
GOALS = "goal ="


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def limits(revision: str) -> dict[str, int]:
    """Return the limits of a revision; none while rooms had goals beside them."""
    text = git("show", f"{revision}:pyproject.toml")
    rooms = tomllib.loads(text).get("tool", {}).get("looplab", {}).get("rooms", {})
    return {} if GOALS in text else {name: room["limit"] for name, room in rooms.items()}


@pytest.mark.parametrize(
    ("message", "good"),
    [
        ("lab: query stand-in images once\n\nBody.", True), ("loop, run: drop a field", True),
        ("budget: give the loop 40 lines of the report", True), ("Merge branch main\n", True),
        ("lab: what stands in place is asked once", False), ("tests: a link is judged at one level", False),
        ("lab: never pull own images", False),
        ("Query images once", False), ("lab: query images once.", False), ("lab: " + "query " * 12 + "once", False),
    ],
)  # fmt: skip
def test_the_hook_takes_subjects_that_say_what_changes(message: str, good: bool) -> None:
    assert HOOK["args"] == ["--negate", "--multiline"]
    assert bool(re.search(HOOK["entry"], message)) is good


def test_a_limit_is_raised_by_a_budget_commit_alone() -> None:
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the history is not here: a checkout without .git, or a shallow one")
    for line in git("log", "--no-merges", "--format=%H %P", "-n", "60", "--", "pyproject.toml").splitlines():
        revision, *parents = line.split()
        before, after = limits(parents[0]) if parents else {}, limits(revision)
        raised = [name for name in before.keys() & after.keys() if after[name] > before[name]]
        subject, _, body = git("log", "-1", "--format=%B", revision).partition("\n")
        assert not raised or (subject.startswith("budget:") and body.strip()), f"{revision[:8]} raises {raised}"
