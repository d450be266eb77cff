"""Run a command in the image of the report: report, check, hand-in and watch need packages, and the host has none."""

import os
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.checkout import Lab
from looplab.lab.settings import read_machine_file

HARDENED = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--security-opt=label=disable",
    "--pids-limit=256",
)  # fmt: skip
# The container gets these variables of the shell.
PASSED_ON = ("LAB_BIND", "LAB_EXPORTER_PORT", "NO_COLOR", "TERM")
DEFAULT_OUT = "report"
# What a command writes in the checkout; a hand-in makes its file anywhere in it. Runs may come from strangers: without
# these, the checkout is read-only.
WRITTEN = {"check": ("report", "answers")}
HAND_IN = "hand-in"
SECRETS = ("secrets", "rpi/secrets")
MOST_MEMORY = "2g"
# From this exit code on, Docker reports errors of its own.
NOT_STARTED = 125


def run_inside(root: Path, words: Sequence[str], options: Mapping[str, Any]) -> int:
    """Run `./lab WORDS` in the image and return its exit code; `options` are the same words, parsed.

    The container is the user's own, sees the checkout and the places that are named, by their paths on the host, and
    has no network, except for `watch`. Raises LabError without an engine or an image.
    """
    out = Path(options.get("out") or root / DEFAULT_OUT).absolute()
    written = [root / name for name in WRITTEN.get(words[0], ())] + [out] * ("out" in options)
    for folder in written:
        _make(folder)
    reference = Lab(root).ready_report()
    # The clock of files is coarser.
    begun_s = time.time() - 1
    given = [*HARDENED, f"--memory={MOST_MEMORY}", *_shared(root, words, options, written)]
    if all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        given += ["--interactive", "--tty"]
    code = _wait(["docker", "run", "--rm", "--init", *given, reference, *words])
    if code >= NOT_STARTED:
        remedy = f"Read the lines above; if there are none, it needs more than {MOST_MEMORY}: name fewer runs."
        raise MachineError(f"The container of {reference} ended with exit code {code}.", remedy)
    pages = sorted((at, page) for page in out.glob("*.html") if (at := page.stat().st_mtime) >= begun_s)
    if options.get("show") and pages and not webbrowser.open(address := pages[0][1].resolve().as_uri()):
        print(f"No browser was found here. Open this address in one:\n{address}")
    return code


def ask_inside(root: Path, module: str, *words: str) -> str:
    """Return what a module prints in the image, e.g. of the verdict engine; "" and its error if it failed."""
    shared = _shared(root, words, {"words": words}, [])
    command = ["docker", "run", "--rm", *HARDENED, *shared, "--entrypoint=python3"]
    asked = subprocess.run(
        [*command, Lab(root).ready_report(), "-m", module, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    return asked.stdout.strip()


def _make(out: Path) -> None:
    """Make the folder of a report: the engine would make it root's."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The report cannot be written to {out}: {error.strerror}."
        raise MachineError(message, "Name another folder: --out DIR") from error


def _shared(root: Path, words: Sequence[str], options: Mapping[str, Any], written: Sequence[Path]) -> Iterator[str]:
    """Yield the options of `docker run` that give the container its user, files and network."""
    owner = root.stat()
    # Root without capabilities cannot write into another user's checkout.
    user, group = (os.getuid(), os.getgid()) if os.getuid() else (owner.st_uid, owner.st_gid)
    known = read_machine_file(root)
    yield f"--user={known.get('LAB_UID', user)}:{known.get('LAB_GID', group)}"
    yield f"--env=LAB_ROOT={root}"
    yield from (f"--env={name}" for name in PASSED_ON)
    yield f"--workdir={Path.cwd()}"
    yield f"--volume={root}:{root}" + ("" if words[0] == HAND_IN else ":ro")
    yield from (f"--tmpfs={root / name}" for name in SECRETS if (root / name).is_dir())
    if (root / "results").is_dir():
        yield f"--volume={root}/results:{root}/results:ro"
    yield from (f"--volume={place}:{place}:ro" for place in _named(root, options))
    yield from (f"--volume={folder}:{folder}" for folder in written)
    # Watch asks the exporter, which is published on this machine.
    yield "--network=none" if options else "--network=host"


def _named(root: Path, options: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders outside the checkout that an argument names."""
    names = [*options.get("runs", ()), *options.get("names", ())]
    places = [Path(name).absolute() for name in names if Path(name).exists()]
    return [place for place in dict.fromkeys(places) if not place.is_relative_to(root)]


def _wait(command: Sequence[str]) -> int:
    """Run a command that has the terminal and handles Ctrl-C itself; return its exit code."""
    process = subprocess.Popen(command)
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
