"""Packages of Debian and Ubuntu that the tests need: which are missing, and their installation."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.machine.apt import apt_get, has_candidate, is_debian_like, is_root
from looplab.lab.programs import call

LIST = "tests/apt-packages.toml"
# Debian keeps some programs outside a user's PATH.
PROGRAM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
# Package scripts ask this file whether to start a service.
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# Written by ./lab test while it installs packages.\nexit 101\n"


@dataclass(frozen=True)
class Package:
    """A line of LIST; `proof` is a program, or the pattern of an absolute path."""

    name: str
    proof: str
    purpose: str

    @property
    def missing(self) -> bool:
        if self.proof.startswith("/"):
            return not any(Path("/").glob(self.proof[1:]))
        return shutil.which(self.proof, path=PROGRAM_PATH) is None


def missing_packages(root: Path) -> dict[str, list[Package]]:
    """Return the missing packages of each table of LIST."""
    tables = tomllib.loads((root / LIST).read_text(encoding="utf-8"))
    packages = {table: [Package(name, *facts) for name, facts in lines.items()] for table, lines in tables.items()}
    return {table: [package for package in lines if package.missing] for table, lines in packages.items()}


def require_installable(missing: Collection[Package], engine: Collection[str] = ()) -> None:
    """Raise LabError (exit code 3) with the one command to type if the lab may not install by itself.

    `engine` names the packages of the Docker engine if that is missing, too.
    """
    if not (missing or engine) or (is_debian_like() and is_root()):
        return
    names = " ".join([*engine, *(package.name for package in missing)])
    if is_debian_like():
        remedy = f"Run `sudo apt-get install --no-install-recommends {names}`, then `./lab test` again."
    else:
        remedy = f"Install what this system calls {names}; `./lab test --unit` needs none of it."
    reasons = "; ".join(f"{package.name} ({package.purpose})" for package in missing)
    raise LabError(f"The tests need packages that are missing: {reasons or 'the Docker engine'}.", remedy, EXIT_MACHINE)


def install(packages: Collection[Package]) -> None:
    """Install with no service started, now or at the next boot; LabError (exit code 3) names what is still missing."""
    # Releases of Debian and Ubuntu divide programs into packages differently.
    names = [package.name for package in packages if has_candidate(package.name)]
    with _no_service_starts():
        done = apt_get("install", *names)
    for name in names:
        if Path(f"/etc/init.d/{name}").exists():
            call(["update-rc.d", name, "disable"])
    if left := [package.name for package in packages if package.missing]:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("E: ")] or [done.said]
        raise LabError(
            f"apt-get could not install {' '.join(left)}: {reasons[0]}",
            f"Run `apt-get install {' '.join(left)}` and correct what it reports, then `./lab test` again.",
            EXIT_MACHINE,
        )


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep a broker or Prometheus of the system off the lab's ports; a policy of this machine's own stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(POLICY_TEXT)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
