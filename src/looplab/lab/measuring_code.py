"""Which state of the lab measures a run: its code and Compose files, without pages, reports and new scenarios."""

import re
from pathlib import Path

from looplab.lab.docker.own_images import SOURCES, digest_of, files_of
from looplab.lab.scenarios import PUBLISHED, scenarios

_SOURCES = {**SOURCES, "compose": "**/*"}
# These show what was measured, or hold what run.json has as parameters, or its digest of the user's own Compose file.
_LEFT_OUT = re.compile(r"/report/|\.(md|env)$|^compose/scenarios/|^compose/own\.yaml$")
_DIGITS = 12


def code(root: Path) -> str:
    """Return a digest of what measures: two commits between which it stays the same may be compared."""
    own = [name for name, one in scenarios(root).items() if PUBLISHED not in one.settings]

    def read(path: Path) -> bytes:
        content = path.read_bytes()
        if path.suffix == ".yaml":
            for name in own:
                # As ./lab new adds a scenario: a line of its controller, its name among the profiles of parts.
                content = re.sub(rf"^  {name}: .*\n|, {name}(?=[],])".encode(), b"", content, flags=re.MULTILINE)
        return content

    paths = (path for path in files_of(root, _SOURCES) if not _LEFT_OUT.search(str(path.relative_to(root))))
    return digest_of(root, paths, read)[:_DIGITS]
