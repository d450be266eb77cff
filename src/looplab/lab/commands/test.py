"""./lab test: set-up, lint and the tests; pytest's own summary is the last line."""

import hashlib
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from looplab.errors import EXIT_INVALID, MachineError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.commands.lint import lint
from looplab.lab.docker.engine import NO_CLIENT, find_engine
from looplab.lab.machine.installing import engine_packages, ensure_engine
from looplab.lab.machine.test_packages import Package, install, missing_packages, require_installable
from looplab.lab.programs import call
from looplab.system.terminal import Step

# Most tests wait for something. tests/conftest.py says which tests may run side by side; `-- -n0` runs them one by one.
AT_ONCE = ("-n2", "--dist=loadscope", "--no-loadscope-reorder")
UNIT = "tests/unit"
INSTALL_TIMEOUT_S = 900.0


def make_ready(root: Path) -> None:
    """Install packages, engine and images; the images are built while most packages are installed."""
    missing = missing_packages(root)
    engine = engine_packages() if find_engine().trouble == NO_CLIENT else []
    require_installable([package for packages in missing.values() for package in packages], engine)
    install(missing["setup"], "what the set-up needs")
    ensure_engine()
    with ThreadPoolExecutor(1) as beside:
        installed = beside.submit(install_for_tests, root, missing["tests"])
        lab = Lab(root, wanted=EXPERIMENTS.values())
        lab.make_ready()
        lab.ready_report()
        installed.result()


def install_for_tests(root: Path, packages: Sequence[Package]) -> None:
    """Install packages and the Python environment of the tests."""
    install(packages, "what the tests need")
    make_environment(root)


def python_of(root: Path) -> Path:
    return root / ".venv/bin/python"


def make_environment(root: Path) -> None:
    """Have the packages that pyproject.toml names for tests in `.venv`; LabError (exit code 3) says why they are not.

    Only developers need it: report, check and watch run in an image.
    """
    wanted = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = wanted["project"]["optional-dependencies"]["test"]
    facts = "\n".join([*requirements, sys.version, str(root)])
    stamp = root / ".venv/.looplab-test"
    fingerprint = hashlib.sha256(facts.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == fingerprint:
        return
    pip = [str(python_of(root)), "-m", "pip", "--disable-pip-version-check"]
    with Step("Installing the tests' Python packages", expected_s=60):
        if not call([*pip, "--version"]).good:
            _create(root)
        done = call([*pip, "install", "--quiet", *requirements], timeout_s=INSTALL_TIMEOUT_S)
    if not done.good:
        raise MachineError(f"The tests' Python packages are missing: {done.said}", "They come from PyPI.")
    stamp.write_text(fingerprint)


def _create(root: Path) -> None:
    try:
        venv.create(root / ".venv", clear=True, symlinks=True, with_pip=True)
    except subprocess.CalledProcessError as error:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        remedy = f"Debian and Ubuntu leave it out: sudo apt-get install {package}"
        raise MachineError("Python's venv module is incomplete.", remedy) from error


@dataclass(frozen=True)
class Steps:
    """What comes before the tests: set-up of the machine or of Python alone, the Python that then runs, the linters."""

    make_ready: Callable[[Path], None] = make_ready
    make_environment: Callable[[Path], None] = make_environment
    python: Callable[[Path], Path] = python_of
    lint: Callable[[Path, Path], bool] = lint


def test(root: Path, unit: bool, rest: Sequence[str], lint_alone: bool) -> int:
    """Set up this machine, lint and test; return 0 if both pass."""
    return run_tests(Steps(), root, unit, rest, lint_alone)


def run_tests(steps: Steps, root: Path, unit: bool, rest: Sequence[str], lint_alone: bool) -> int:
    """Set up, lint and test; return 0 if both pass. Both always run: one mistake must not hide another."""
    if lint_alone:
        steps.make_environment(root)
        return 0 if steps.lint(root, steps.python(root).parent) else EXIT_INVALID
    paths = [word.partition("::")[0] for word in rest if not word.startswith("-")]
    named = [path for path in paths if (root / path).exists()]
    unit_alone = unit or bool(named and all(path.startswith(UNIT) for path in named))
    if unit_alone:
        steps.make_environment(root)
    else:
        steps.make_ready(root)
    python = steps.python(root)
    linters = partial(steps.lint, root, python.parent)
    chosen = [] if named else [UNIT if unit else "tests", *AT_ONCE]
    colour = ["--color=yes"] if sys.stdout.isatty() and "NO_COLOR" not in os.environ else []
    command = [str(python), "-m", "pytest", *colour, *chosen, *rest]
    # Debian keeps some programs outside a user's PATH.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PATH": path}
    # Every process of a test would compile its modules, and each worker all tests.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if unit_alone:
        clean, code = _both(linters, command, root, environment)
    else:
        # Some of these tests measure: the linters end first.
        clean = linters()
        code = subprocess.run(command, cwd=root, env=environment, check=False).returncode
    # pytest's own codes (5: nothing collected) mean a failed check, too.
    return 0 if clean and code == 0 else EXIT_INVALID


def _both(
    linters: Callable[[], bool], command: Sequence[str], root: Path, environment: Mapping[str, str]
) -> tuple[bool, int]:
    """Run the tests beside the linters, print the linters' lines first, and return both results."""
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        clean = linters()
        for chunk in iter(partial(os.read, tests.stdout.fileno(), 1 << 16), b""):
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
    return clean, tests.returncode


# pytest would take this module's function for a test where a test module imports it.
test.__test__ = False  # type: ignore[attr-defined]
