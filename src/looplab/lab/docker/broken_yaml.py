"""Which file it is that Compose cannot read: its own words name a line and no file."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.programs import call

_FAULT = re.compile(r"yaml: (?:unmarshal errors:|line \d+)")


def tell_broken_yaml(root: Path, said: str) -> None:
    """LabError (exit code 2) naming the file below `root`, where `said` is Compose's complaint of YAML.

    Each file is given to Compose by itself, in a folder where it finds none of those that it refers to.
    """
    if not _FAULT.search(said):
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in [root / "compose.yaml", *sorted((root / "compose").rglob("*.yaml"))]:
            alone = ["docker", "compose", "--project-directory", folder, "--file", "-", "config", "--quiet"]
            done = call(alone, feed=path.read_text(encoding="utf-8", errors="replace"))
            if _FAULT.search(done.stderr) and done.said in said:
                name = path.relative_to(root)
                remedy = f"Mend that line, or take the file back: git checkout {name}"
                raise LabError(f"{name} cannot be read: {done.said}.", remedy, EXIT_USAGE)
