"""Make the Python environment of the commands that need packages, then start looplab.lab.cli.

./lab runs this file with any Python >= 3.11 before anything is installed: standard library only. Standard output
belongs to the command, so this file prints to standard error.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / ".venv"
CACHE = ROOT / ".cache"
# Where ./lab load leaves the packages of a bundle.
WHEELS = CACHE / "wheels"
OLDEST_PYTHON = (3, 11)
# Kinds of environment: each holds these extras of pyproject.toml. A larger one serves in place of a smaller one.
WATCH, REPORT, TEST = "watch", "report", "test"
EXTRAS = {WATCH: ("watch",), REPORT: ("watch", "report"), TEST: ("watch", "report", "test")}
# Every other command runs with the standard library; `test` makes its environment while it installs packages.
NEEDS = {"watch": WATCH, "report": REPORT, "check": REPORT, "hand-in": REPORT}
EXPECTED_S = {WATCH: 5, REPORT: 30, TEST: 60}
EXIT_MACHINE = 3
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--timeout=10", "--retries=1")


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def requirements(kind: str) -> list[str]:
    """Return the pinned packages of one kind of environment, as pyproject.toml lists them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [requirement for extra in EXTRAS[kind] for requirement in extras[extra]]


def fingerprint(kind: str) -> str:
    """Return a digest of all that an environment depends on: packages, Python, place."""
    facts = [*requirements(kind), sys.version, str(ROOT)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def python_of_environment() -> Path:
    return PLACE / "bin" / "python"


def stamp(kind: str) -> Path:
    return PLACE / f".looplab-{kind}"


def is_ready(kind: str) -> bool:
    """Return whether `.venv` holds the packages of `kind`."""
    for larger in (other for other in EXTRAS if set(EXTRAS[kind]) <= set(EXTRAS[other])):
        try:
            if stamp(larger).read_text() == fingerprint(larger) and python_of_environment().exists():
                return True
        except OSError:
            continue
    return False


def make_environment(kind: str) -> str:
    """Make or complete `.venv`; return "" or, in one line, why that failed."""
    # It breaks when its Python goes, and when it is moved.
    if not _imports(python_of_environment(), "pip"):
        shutil.rmtree(PLACE, ignore_errors=True)
        if trouble := _create():
            return trouble
    say(f"getting the Python packages that ./lab {kind} needs (once; about {EXPECTED_S[kind]} s)")
    if trouble := _install(kind):
        return trouble
    stamp(kind).write_text(fingerprint(kind))
    return ""


def _install(kind: str) -> str:
    """Take a bundle's wheels if they fit, else ask the package index; return "" or why neither worked."""
    command = [str(python_of_environment()), "-m", "pip", "install", *PIP_OPTIONS]
    unfit = ""
    if any(WHEELS.glob("*.whl")):
        unfit = _reason(*command, "--no-index", f"--find-links={WHEELS}", *requirements(kind))
        if not unfit:
            return ""
        unfit = f"the bundle's packages do not fit this Python or this state of the lab ({unfit}), and "
    failure = _reason(*command, *requirements(kind))
    return f"{unfit}the package index cannot be reached or lacks a package ({failure})" if failure else ""


def _reason(*command: str) -> str:
    """Run a command; return "" or the last line of its errors."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"


def _create() -> str:
    say("making the lab's Python environment in .venv (once)")
    if not _imports(sys.executable, "ensurepip") and (trouble := _install_venv()):
        return trouble
    failure = _reason(sys.executable, "-m", "venv", str(PLACE))
    return f"a Python environment could not be made ({failure})" if failure else ""


def _install_venv() -> str:
    """Install what Debian and Ubuntu leave out of Python's venv module; return "" or what the user must type."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    sys.path.insert(0, str(ROOT / "src"))
    from looplab.errors import LabError
    from looplab.lab.programs import run_script

    try:
        run_script("install-packages", package, title="Installing Python's venv module", expected_s=10)
    except LabError:
        return f"Python's venv module is incomplete: sudo apt-get install {package}"
    return ""


def _imports(python: str | Path, modules: str) -> bool:
    """Return whether a Python that is new enough starts and has `modules`."""
    check = f"import sys, {modules}; raise SystemExit(sys.version_info < {OLDEST_PYTHON})"
    try:
        return subprocess.run([str(python), "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def ensure_environment(kind: str) -> str:
    """Return "" once `.venv` is ready, else the reason; one process at a time, the others wait for it."""
    if is_ready(kind):
        return ""
    try:
        CACHE.mkdir(exist_ok=True)
        lock = (CACHE / "venv.lock").open("w")
    except OSError as problem:
        return f"{CACHE} cannot be written ({problem.strerror})"
    with lock:
        # The kernel releases this lock with the process, however it ends.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return "" if is_ready(kind) else make_environment(kind)


def python_with_pip() -> str:
    """Return this Python, or the one of an environment: Debian's own Python has no pip."""
    if _imports(sys.executable, "pip") or ensure_environment(REPORT):
        return sys.executable
    return str(python_of_environment())


def hand_over(python: str, arguments: list[str]) -> None:
    source = str(ROOT / "src")
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{source}{os.pathsep}{inherited}" if inherited else source
    # numpy's matrices are small here: threads wait for each other, six times as long as one alone takes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.stdout.flush()
    os.execv(python, [python, "-m", "looplab.lab.cli", *arguments])


def main(arguments: list[str]) -> int:
    kind = NEEDS.get(arguments[0] if arguments else "")
    if kind is None:
        hand_over(sys.executable, arguments)
    elif trouble := ensure_environment(kind):
        say(f"./lab {arguments[0]} cannot start: {trouble}.")
        say(f"It needs {', '.join(requirements(kind))}. Correct that, then run ./lab {arguments[0]} again.")
        return EXIT_MACHINE
    hand_over(str(python_of_environment()), arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
