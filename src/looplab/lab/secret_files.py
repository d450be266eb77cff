"""Files that only the owner of this checkout may read."""

import os
from pathlib import Path


def write_secret(path: Path, text: str) -> None:
    """Replace `path` by a rename."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
