"""Packages of Debian and Ubuntu, installed only where this is such a host and this user is root."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.programs import call, is_there
from looplab.system.terminal import Step

_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "UCF_FORCE_CONFFOLD": "1"}


def is_root() -> bool:
    return os.geteuid() == 0


def is_debian_like(release: dict[str, str] | None = None) -> bool:
    """Debian, Ubuntu, Raspberry Pi OS and what says it is like them."""
    if release is None:
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            return False
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return bool(family & {"debian", "ubuntu"}) and is_there("apt-get")


def require_root_and_apt(what: str, packages: Sequence[str]) -> None:
    """Say the exact next command where the lab may not install by itself."""
    names = " ".join(packages)
    if not is_debian_like():
        remedy = f"Install {what} with this system's own package manager, then run ./lab setup again."
        raise LabError(f"{what} is missing, and this is no Debian or Ubuntu.", remedy, EXIT_MACHINE)
    if not is_root():
        remedy = f"Run sudo ./lab setup, or sudo apt-get install --no-install-recommends {names}."
        raise LabError(f"{what} is missing, and installing it needs root.", remedy, EXIT_MACHINE)


def install_packages(
    what: str, packages: Sequence[str], expected_s: float = 30.0, if_known: Sequence[str] = ()
) -> None:
    """apt-get update and install, with progress; apt's own complaint is the reason where it fails.

    `if_known` are packages that only some releases have apart from the others.
    """
    require_root_and_apt(what, packages)
    with Step(f"Installing {what} ({' '.join(packages)})", expected_s) as step:
        call(["apt-get", "-qq", "update"], timeout_s=300, environment=_QUIET)
        wanted = [*packages, *(package for package in if_known if has_candidate(package))]
        # Somebody else, as a machine that updates itself, may be installing just now.
        patient = ["-o", "DPkg::Lock::Timeout=600"]
        install = ["apt-get", "-y", "-q", *patient, "--no-install-recommends", "install", *wanted]
        done = call(install, timeout_s=1200, environment=_QUIET)
        if not done.good:
            step.finish_as("failed")
            reasons = [line for line in done.stderr.splitlines() if line.startswith("E: ")] or [done.said]
            raise LabError(
                f"apt-get could not install {what}: {reasons[0]}",
                f"Run apt-get install {' '.join(packages)} by hand and mend what it says; "
                "without a network use an engine that is there already and ./lab load FILE.",
                EXIT_MACHINE,
            )


def has_candidate(package: str) -> bool:
    policy = call(["apt-cache", "policy", package])
    return any(line.strip().startswith("Candidate:") and "(none)" not in line for line in policy.stdout.splitlines())
