"""Files under secrets/ that one reader alone may open."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path("secrets")


def ensure_folder(root: Path) -> Path:
    """`secrets/`, which keeps every other user of this machine out."""
    path = root / FOLDER
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)
    return path


def write_secret(path: Path, text: str, reader: int | None = None) -> None:
    """Replace `path` in one go: mode 600, or readable by the container user with id `reader`.

    Only root can give a file away. Elsewhere the container's user could not read its owner's file: it is opened for
    all, and the folder above, which no container has, keeps this machine's other users out.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    if reader is not None and os.geteuid() == 0:
        os.chown(fresh, reader, reader)
        fresh.chmod(0o400)
    elif reader is not None and reader != os.geteuid():
        fresh.chmod(0o444)
    fresh.replace(path)
