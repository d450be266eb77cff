"""Grafana's administrator: a random password in a file of its own, that Compose mounts as a secret."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

PASSWORD_FILE = Path("secrets/grafana_admin_password")


def ensure_password(root: Path) -> dict[str, str]:
    """Write a fresh random password under `root` unless one is there; returns what Compose has to know of it."""
    path = root / PASSWORD_FILE
    # Grafana's user differs from the file's owner, which may be anyone: the folder keeps all others out.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.chmod(0o700)
    if not (path.is_file() and path.stat().st_size):
        _write(path, secrets.token_urlsafe(24))
    # Compose reads a secret's path from the folder of the file that names it.
    return {"GRAFANA_PASSWORD_FILE": f"../{PASSWORD_FILE}", "GRAFANA_NO_ADMIN": "false"}


def _write(path: Path, password: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(password)
    fresh.chmod(0o444)
    fresh.replace(path)
