"""Version numbers as programs print them, and the oldest ones the lab accepts."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

# `include` of files with variables and `env_file` with `required` both work from here on.
OLDEST_COMPOSE: Version = (2, 24, 4)


def parse_version(text: str) -> Version | None:
    """First dotted number of a text: "v2.26.1-4" is (2, 26, 1), "24.0" is (24, 0, 0)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def show_version(version: Version) -> str:
    return ".".join(str(part) for part in version)
