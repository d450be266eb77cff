"""Grafana's administrator: a random password in a file of its own, that Compose mounts as a secret."""

from __future__ import annotations

import secrets
from pathlib import Path

from looplab.lab.credentials.secret_files import FOLDER, ensure_folder, write_secret

PASSWORD_FILE = FOLDER / "grafana_admin_password"
# The user of the image grafana/grafana.
GRAFANA_UID = 472


def ensure_password(root: Path) -> dict[str, str]:
    """Write a fresh random password under `root` unless one is there; returns what Compose has to know of it."""
    path = root / PASSWORD_FILE
    ensure_folder(root)
    if not (path.is_file() and path.stat().st_size):
        write_secret(path, secrets.token_urlsafe(24), GRAFANA_UID)
    # Compose reads a secret's path from the folder of the file that names it.
    return {"GRAFANA_PASSWORD_FILE": f"../{PASSWORD_FILE}", "GRAFANA_NO_ADMIN": "false"}
