"""A room without a network: a network namespace with nothing but lo, and an empty engine of its own in it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.e2e_lab import finished
from support.engines import OwnEngine

# What points to a package index, a registry or a cache of this machine: a room has none of it.
KEPT = ("PATH", "LANG", "TERM", "TMPDIR", "LAB_TAG")
START = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec dockerd "$@"', "sh")


@dataclass
class Room:
    """Commands run in the namespace, with the engine there and an environment of almost nothing."""

    place: Path
    engine: OwnEngine

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        return {**kept, "HOME": str(home), "DOCKER_HOST": self.engine.endpoint}

    def run(
        self, *command: str, root: Path, timeout_s: float = 120.0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--net", f"--target={self.engine.pid}", "--", *command]
        return finished(inside, root, {**self.environment, **variables}, timeout_s)


@contextmanager
def unplugged_room(place: Path) -> Iterator[Room]:
    """`place` must have a short path: an engine's sockets lie in it."""
    try:
        with OwnEngine(place, START) as engine:
            yield Room(place, engine)
    finally:
        shutil.rmtree(place)
