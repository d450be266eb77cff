"""What ./lab test and CI install is pinned: each package by its hash, each action by its commit."""

import re
import tomllib

from support.places import ROOT

from looplab.lab.commands.test import REQUIREMENTS


def test_every_python_package_of_the_tests_is_known_by_its_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entries = re.split(r"\n(?=\S)", (ROOT / REQUIREMENTS).read_text())
    pinned = {entry.split()[0].split(";")[0]: entry for entry in entries if not entry.startswith("#")}
    wanted = {re.sub(r"\[\w+\]", "", one).lower() for one in project["optional-dependencies"]["test"]}
    assert wanted <= {name.lower() for name in pinned}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in pinned.values())


def test_every_action_of_ci_is_a_commit() -> None:
    """A tag can be moved."""
    found = [line for path in (ROOT / ".github/workflows").iterdir() for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in found if "uses:" in line]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", one) for one in used), used
