"""What CI runs is pinned: each action by its commit; pip refuses a package of the tests without its hash."""

import re

from support.places import ROOT


def test_every_action_of_ci_is_a_commit() -> None:
    """A tag can be moved."""
    found = [line for path in (ROOT / ".github/workflows").iterdir() for line in path.read_text().splitlines()]
    used = [line.partition("uses:")[2].strip() for line in found if "uses:" in line]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", one) for one in used), used
