"""Allow one run at a time on an engine: by a lock of ./lab, and by a look for runs of plain Compose."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import IO

from looplab.errors import MachineError
from looplab.lab.checkout import Lab
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.engine import Engine
from looplab.lab.settings import project_name
from looplab.system.lock import Held, hold, holder
from looplab.system.machine_facts import hashed

GOES_ON = "Wait until it has ended, end it with Ctrl-C in its terminal, or with `./lab down`."
# All users of this machine share this folder, whatever TMPDIR is.
LOCKS = Path("/tmp")
# This process holds these locks until it ends: the sessions of a study share one.
_held: dict[Path, IO[str]] = {}


def hold_lab(lab: Lab, engine: Engine) -> None:
    """Hold this lab until the process ends. Raises MachineError that names the ./lab that holds it."""
    path = lock_file(lab.root, engine)
    user, names = os.environ.get("USER") or os.getuid(), " ".join(one.run_name for one in lab.scenarios)
    try:
        _held[path] = _held.get(path) or hold(path, f"{names} of user {user} in {lab.root}, process {os.getpid()}")
    except Held as other:
        raise MachineError(f"Another ./lab measures here: {other}.", GOES_ON) from None
    except OSError as error:
        raise MachineError(f"Cannot hold {path}: {error.strerror}.", "Remove that file, then try again.") from error


def lock_file(root: Path, engine: Engine) -> Path:
    """Return the file that a ./lab holds while it measures: one for each engine and Compose project."""
    return LOCKS / f"looplab-{hashed(f'{engine.server_id} {project_name(root)}')}.lock"


def check_idle(compose: Compose, known: Collection[str]) -> None:
    """Raise MachineError (exit code 3) if one of the `known` controllers runs, though no other ./lab holds the lab."""
    if others := _measuring(compose, known):
        by = "Plain Compose started it, or a ./lab that was killed."
        raise MachineError(f"This lab still measures {others}. {by}", GOES_ON)


def run_that_goes_on(root: Path, engine: Engine, compose: Compose, known: Collection[str]) -> str:
    """Return which ./lab measures, else which of the `known` controllers, and since when; "" if none does."""
    return holder(lock_file(root, engine)) or _measuring(compose, known)


def _measuring(compose: Compose, known: Collection[str]) -> str:
    running = sorted(compose.listed().keys() & known)
    return ", ".join(f"{name}, since {compose.started(name)}" for name in running)
