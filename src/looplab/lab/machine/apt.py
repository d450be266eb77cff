"""Packages of Debian and Ubuntu: scripts/install-packages installs them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable

from looplab.lab.programs import is_there, run_script


def is_root() -> bool:
    return os.geteuid() == 0


def is_debian_like() -> bool:
    """Return whether this is Debian, Ubuntu, Raspberry Pi OS or a system that names one of them as its like."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return bool(family & {"debian", "ubuntu"}) and is_there("apt-get")


def install_packages(what: str, packages: Iterable[str], expected_s: float = 30.0) -> None:
    """Install `packages` with progress; LabError (exit code 3) with the command to type if this user may not."""
    run_script("install-packages", *packages, title=f"Installing {what}", expected_s=expected_s)
