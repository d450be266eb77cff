"""./lab down: stop and remove everything; results stay."""

from __future__ import annotations

from pathlib import Path

from looplab.lab.checkout import Lab


def down(root: Path) -> int:
    """Stop and remove every container and network of the lab; return the exit code."""
    return Lab(root).down()
