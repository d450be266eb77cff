"""Files under secrets/ that one reader alone may open; Grafana's administrator has its password in one."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from looplab.spec.experiment import Experiment

FOLDER = Path("secrets")
GRAFANA_PASSWORD_FILE = FOLDER / "grafana_admin_password"
# The user of the image grafana/grafana.
GRAFANA_UID = 472


def ensure_folder(root: Path) -> None:
    """Make `secrets/`, which keeps every other user of this machine out."""
    path = root / FOLDER
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)


def write_secret(path: Path, text: str, reader: int | None = None) -> None:
    """Replace `path` by a rename: mode 600, or readable by the container user with id `reader`.

    Only root can give a file away. Without root the container's user could not read its owner's file: then all may
    read it, and the folder above, which no container has, keeps this machine's other users out.
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


def ensure_passwords(root: Path, experiments: Iterable[Experiment]) -> dict[str, str]:
    """Write a random password for each Compose secret of `experiments` unless there is one; return the variables that
    name their folders, e.g. TWIN_SECRETS."""
    variables = {}
    for experiment in experiments:
        if not experiment.passwords:
            continue
        folder = root / FOLDER / experiment.name
        ensure_folder(root)
        folder.mkdir(exist_ok=True)
        for name in experiment.passwords:
            if not (folder / name).is_file():
                # Containers of several users read it; the folder above keeps this machine's other users out.
                write_secret(folder / name, secrets.token_urlsafe(24))
                (folder / name).chmod(0o444)
        variables[f"{experiment.name.upper().replace('-', '_')}_SECRETS"] = str(folder.resolve())
    return variables


def ensure_grafana_password(root: Path) -> dict[str, str]:
    """Write a random password unless there is one; return the variables that Compose needs for it."""
    path = root / GRAFANA_PASSWORD_FILE
    ensure_folder(root)
    if not (path.is_file() and path.stat().st_size):
        write_secret(path, secrets.token_urlsafe(24), GRAFANA_UID)
    # Compose reads a secret's path from the folder of the file that names it.
    return {"GRAFANA_PASSWORD_FILE": f"../{GRAFANA_PASSWORD_FILE}", "GRAFANA_NO_ADMIN": "false"}
