"""./lab test: set-up, lint and the tests; pytest's own summary is the last line."""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_INVALID, MachineError
from looplab.lab.checkout import Lab
from looplab.lab.commands.lint import lint
from looplab.lab.docker.images import left_by_tests
from looplab.lab.programs import call, run_script
from looplab.lab.scenarios import chosen, every
from looplab.system.terminal import Step

# Most tests wait for something: a process of tests uses a fifth of a processor. tests/conftest.py says which tests may
# run side by side; `-- -n0` runs them one by one. The slowest are named at the end.
AT_ONCE = ("-n3", "--dist=loadscope", "--no-loadscope-reorder", "--durations=25", "--durations-min=5")
UNIT = "tests/unit"
PACKAGES = "tests/apt-packages.toml"
# Debian keeps some programs outside a user's PATH.
PROGRAM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
# The lab builds these brokers beside the default one.
OWN_BROKERS = ("rabbitmq", "mochi")
# scripts/pin-python writes this file from pyproject.toml.
REQUIREMENTS = "tests/requirements.txt"
INSTALL_TIMEOUT_S = 900.0


def make_ready(root: Path) -> None:
    """Install packages, the engine, and the tests' Python environment; have every image of the lab."""
    install_packages(missing_packages(root))
    make_environment(root)
    lab = Lab(root, scenarios=list(every(root).values()))
    lab.make_ready()
    lab.ready_report()
    # A run builds its own broker alone, but the tests run each of them.
    for broker in OWN_BROKERS:
        Lab(root, {"BROKER": broker}, chosen(root, ["scenario0"])).make_ready()


def missing_packages(root: Path) -> list[str]:
    """Return the packages of Debian and Ubuntu that are missing of PACKAGES."""

    def proven(proof: str) -> bool:
        found = any(Path("/").glob(proof[1:])) if proof.startswith("/") else shutil.which(proof, path=PROGRAM_PATH)
        return bool(found)

    listed = tomllib.loads((root / PACKAGES).read_text(encoding="utf-8"))
    return [name for name, (proof, _purpose) in listed.items() if not proven(proof)]


def install_packages(missing: Sequence[str]) -> None:
    """Install packages, with no service started. Raises MachineError with the command to type if the lab may not."""
    if missing:
        # Releases of Debian and Ubuntu divide programs into packages differently.
        known = [word for name in missing for word in ("--if-known", name)]
        title = f"Installing what the tests need ({PACKAGES})"
        run_script("install-packages", "--no-services", *known, title=title, expected_s=60)


def python_of(root: Path) -> Path:
    return root / ".venv/bin/python"


def make_environment(root: Path) -> None:
    """Have the packages that pyproject.toml names for tests in `.venv`, each file by its hash (REQUIREMENTS).

    LabError (exit code 3) says why they are not there.

    Only developers need it: report, check and watch run in an image.
    """
    requirements = root / REQUIREMENTS
    facts = "\n".join([requirements.read_text(encoding="utf-8"), sys.version, str(root)])
    stamp = root / ".venv/.looplab-test"
    fingerprint = hashlib.sha256(facts.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == fingerprint:
        return
    pip = [str(python_of(root)), "-m", "pip", "--disable-pip-version-check"]
    with Step("Installing the tests' Python packages", expected_s=60):
        if not call([*pip, "--version"]).good:
            _create(root)
        done = call(
            [*pip, "install", "--quiet", "--require-hashes", "--requirement", str(requirements)],
            timeout_s=INSTALL_TIMEOUT_S,
        )
    if not done.good:
        raise MachineError(f"The tests' Python packages are missing: {done.reason}", "They come from PyPI.")
    stamp.write_text(fingerprint)


def _create(root: Path) -> None:
    try:
        venv.create(root / ".venv", clear=True, symlinks=True, with_pip=True)
    except subprocess.CalledProcessError as error:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        remedy = f"Debian and Ubuntu leave it out: sudo apt-get install {package}"
        raise MachineError("Python's venv module is incomplete.", remedy) from error


def test(root: Path, unit: bool, rest: Sequence[str], lint_alone: bool) -> int:
    """Set up this machine, lint and test; return 0 if both pass. Both always run: one mistake must not hide another."""
    programs = python_of(root).parent
    if lint_alone:
        make_environment(root)
        return EXIT_GOOD if lint(root, programs) else EXIT_INVALID
    (make_environment if unit else make_ready)(root)
    # Some tests measure, so the linters end first.
    clean = lint(root, programs)
    named = any((root / word.partition("::")[0]).exists() for word in rest if not word.startswith("-"))
    chosen = [] if named else [UNIT if unit else "tests", *AT_ONCE]
    command = [str(python_of(root)), "-m", "pytest", *chosen, *rest]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PATH": PROGRAM_PATH}
    # Without compiled files every process of a test would compile its modules again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = left_by_tests()
    code = subprocess.run(command, cwd=root, env=environment, check=False).returncode
    if left := left_by_tests() - before:
        # Tests also build changed checkouts under the names of the lab's images.
        call(["docker", "rmi", *sorted(left)], timeout_s=INSTALL_TIMEOUT_S)
    # pytest's own codes (5: nothing collected) mean a failed check, too.
    return EXIT_GOOD if clean and code == 0 else EXIT_INVALID


# pytest would take this module's function for a test where a test module imports it.
test.__test__ = False  # type: ignore[attr-defined]
