"""Make the lab's own Python environment on first use, then hand over to looplab.lab.cli.

Run by ./lab with any Python >= 3.11 before anything is installed: standard library only. Standard
output belongs to the command, so every word from here goes to standard error.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / ".venv"
CACHE = ROOT / ".cache"
OLDEST_PYTHON = (3, 11)
# Which extras of pyproject.toml a kind of environment holds; the commands that need more than the core.
CORE, REPORT, TEST = "core", "report", "test"
EXTRAS = {CORE: (), REPORT: ("report",), TEST: ("report", "test")}
NEEDS = {"report": REPORT, "check": REPORT, "test": TEST}
# Brings the packages itself: nothing is asked for before.
BRINGS = ("load",)
WORDS = {
    CORE: "getting the package rich (once)",
    REPORT: "getting the packages that figures and statistics need (once; about 30 s)",
    TEST: "getting the lab's Python packages (once; about 40 s)",
}
EXIT_MACHINE = 3
# After a failure the package index is left alone for a while: a room without a network must not pay each time.
RETRY_AFTER_S = 3600.0
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--timeout=10", "--retries=1")


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def requirements(kind: str) -> list[str]:
    """Read from pyproject.toml, where they are pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS[kind]:
        wanted += project["optional-dependencies"][extra]
    return wanted


def fingerprint(kind: str) -> str:
    """Changes whenever the environment has to be made anew: other packages, another Python, another place."""
    facts = [*requirements(kind), sys.version, str(ROOT)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def python_of_environment() -> Path:
    return PLACE / "bin" / "python"


def stamp(kind: str) -> Path:
    return PLACE / f".looplab-{kind}"


def is_ready(kind: str) -> bool:
    """A larger set holds the smaller ones, so its stamp serves them, too."""
    for larger in (other for other in EXTRAS if set(EXTRAS[kind]) <= set(EXTRAS[other])):
        try:
            if stamp(larger).read_text() == fingerprint(larger) and python_of_environment().exists():
                return True
        except OSError:
            continue
    return False


def wheels_place() -> Path:
    """Where ./lab load leaves the packages of a bundle."""
    return CACHE / "wheels"


def failed_lately(kind: str) -> bool:
    try:
        mark = (CACHE / "venv.failed").read_text().split()
        return mark[0] == fingerprint(kind) and time.time() - float(mark[1]) < RETRY_AFTER_S
    except (OSError, ValueError, IndexError):
        return False


def note_failure(kind: str) -> None:
    (CACHE / "venv.failed").write_text(f"{fingerprint(kind)} {time.time():.0f}\n")


def make_environment(kind: str) -> str:
    """Make or mend `.venv`; returns "" or, in one line, why it could not be done."""
    if not _runs(python_of_environment()):
        shutil.rmtree(PLACE, ignore_errors=True)
        # A place of its own first: what ./lab may find is either whole or not there.
        trouble = _create()
        if trouble:
            return trouble
    say(WORDS[kind])
    trouble = _install(kind)
    if trouble:
        return trouble
    stamp(kind).write_text(fingerprint(kind))
    return ""


def _install(kind: str) -> str:
    """From a bundle's wheels where they serve, else from the package index; "" or why neither did."""
    command = [str(python_of_environment()), "-m", "pip", "install", *PIP_OPTIONS]
    unfit = ""
    if any(wheels_place().glob("*.whl")):
        unfit = _done([*command, "--no-index", f"--find-links={wheels_place()}", *requirements(kind)])
        if not unfit:
            return ""
        unfit = f"the bundle's packages do not fit this Python or this state of the lab ({unfit}), and "
    failure = _done([*command, *requirements(kind)])
    return f"{unfit}the package index cannot be reached or lacks a package ({failure})" if failure else ""


def _done(command: list[str]) -> str:
    """ "" or the last thing that a failing command said."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return _last_line(done.stderr) if done.returncode else ""


def _create() -> str:
    say("making the lab's Python environment in .venv (once)")
    done = subprocess.run([sys.executable, "-m", "venv", str(PLACE)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    shutil.rmtree(PLACE, ignore_errors=True)
    if "ensurepip" in done.stdout + done.stderr:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"Python's venv module is incomplete: sudo apt-get install python{version}-venv"
    return f"a Python environment could not be made ({_last_line(done.stderr)})"


def _runs(python: Path) -> bool:
    """A venv dies with the Python it was made from, and does not survive being moved."""
    check = "import sys, pip; raise SystemExit(sys.version_info < (3, 11))"
    try:
        done = subprocess.run([str(python), "-c", check], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def ensure_environment(kind: str) -> str:
    """ "" when `.venv` is ready, else why not; one process at a time, the others wait for its work."""
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
        if is_ready(kind):
            return ""
        if kind == CORE and failed_lately(kind):
            return "the package rich could not be had a while ago; tried again within the hour"
        trouble = make_environment(kind)
        if trouble:
            note_failure(kind)
        return trouble


def hand_over(python: str, arguments: list[str]) -> None:
    source = str(ROOT / "src")
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{source}{os.pathsep}{inherited}" if inherited else source
    sys.stdout.flush()
    os.execv(python, [python, "-m", "looplab.lab.cli", *arguments])


def main(arguments: list[str]) -> int:
    kind = NEEDS.get(arguments[0], CORE) if arguments else CORE
    if arguments and arguments[0] in BRINGS and not is_ready(kind):
        hand_over(sys.executable, arguments)
    trouble = ensure_environment(kind)
    if trouble and kind != CORE:
        say(f"./lab {arguments[0]} cannot start: {trouble}.")
        say(f"it needs {', '.join(requirements(kind))}.")
        say(f"mend that, then run ./lab {arguments[0]} again.")
        return EXIT_MACHINE
    if trouble:
        say(f"{trouble}; going on with plain {sys.executable}, without live tables.")
        hand_over(sys.executable, arguments)
    hand_over(str(python_of_environment()), arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
