"""Packages of Debian and Ubuntu that the tests need: which are missing, and their installation."""

import os
import shutil
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.programs import is_there, run_script

LIST = "tests/apt-packages.toml"
# Debian keeps some programs outside a user's PATH.
PROGRAM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


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


def missing_packages(root: Path) -> list[Package]:
    lines = tomllib.loads((root / LIST).read_text(encoding="utf-8")).items()
    return [package for name, facts in lines if (package := Package(name, *facts)).missing]


def require_installable(missing: Collection[Package], engine: Collection[str] = ()) -> None:
    """Raise LabError (exit code 3) with the one command to type if the lab may not install by itself.

    `engine` names the packages of the Docker engine if that is missing, too.
    """
    if not (missing or engine) or (is_there("apt-get") and os.geteuid() == 0):
        return
    names = " ".join([*engine, *(package.name for package in missing)])
    if is_there("apt-get"):
        remedy = f"Run `sudo apt-get install --no-install-recommends {names}`, then `./lab test` again."
    else:
        remedy = f"Install what this system calls {names}; `./lab test --unit` needs none of it."
    reasons = "; ".join(f"{package.name} ({package.purpose})" for package in missing)
    raise MachineError(f"The tests need packages that are missing: {reasons or 'the Docker engine'}.", remedy)


def install(packages: Collection[Package]) -> None:
    """Install with progress, and with no service started; LabError (exit code 3) names what is still missing."""
    if not packages:
        return
    # Releases of Debian and Ubuntu divide programs into packages differently.
    known = [word for package in packages for word in ("--if-known", package.name)]
    names = " ".join(package.name for package in packages)
    title = f"Installing what the tests need ({names})"
    run_script("install-packages", "--no-services", *known, title=title, expected_s=60)
    if left := " ".join(package.name for package in packages if package.missing):
        raise MachineError(
            f"After the installation these packages are still missing: {left}.",
            f"Run `apt-get install {left}` and correct what it reports, then `./lab test` again.",
        )
