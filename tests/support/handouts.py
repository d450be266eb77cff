"""The handouts as their readers see them: sections, commands, panels."""

import re
from pathlib import Path

from support.places import ROOT

FOLDERS = (ROOT / "compose/scenarios", ROOT / "compose/experiments", ROOT / "docs/exercises")
HANDOUTS = sorted(path for folder in FOLDERS for path in folder.glob("[!_]*/README.md"))


def name_of(handout: Path) -> str:
    return handout.parent.name


def sections(handout: Path) -> list[str]:
    return re.findall(r"^## (.+)$", handout.read_text(), re.MULTILINE)


def commands(handout: Path) -> list[str]:
    """Every line of every block of shell commands, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", handout.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def panels(handout: Path) -> list[str]:
    """What the section Observe names in italics."""
    observe = handout.read_text().split("## Observe")[1].split("\n## ")[0]
    return re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", observe)
