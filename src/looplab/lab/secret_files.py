"""Passwords of containers, in files under secrets/, a folder that only the owner of this checkout may open."""

import os
import secrets
from pathlib import Path

FOLDER = Path("secrets")
GRAFANA_PASSWORD_FILE = FOLDER / "grafana_admin_password"


def write_secret(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace `path` by a rename."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.chmod(mode)
    fresh.replace(path)


def ensure_password(path: Path, mode: int = 0o600) -> Path:
    """Write a random password to `path` unless there is one; return `path`, in a folder for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    if not (path.is_file() and path.stat().st_size):
        write_secret(path, secrets.token_urlsafe(24), mode)
    return path


def ensure_grafana_password(root: Path) -> dict[str, str]:
    """Have Grafana's password; return the variables that Compose needs for it.

    Containers of several users read it; `secrets/`, which no container has, keeps this machine's other users out.
    """
    ensure_password(root / GRAFANA_PASSWORD_FILE, 0o444)
    # Compose reads a secret's path from the folder of the file that names it.
    return {"GRAFANA_PASSWORD_FILE": f"../{GRAFANA_PASSWORD_FILE}", "GRAFANA_NO_ADMIN": "false"}
