"""A room without a network: a network namespace with nothing but lo, and an empty engine of its own in it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.e2e_lab import finished
from support.waiting import until

# What points to a package index, a registry or a cache of this machine: a room has none of it.
KEPT = ("PATH", "LANG", "TERM", "TMPDIR", "LAB_TAG")
END_TIMEOUT_S = 60.0


@dataclass
class Room:
    """Commands run in the namespace, with the engine there and an environment of almost nothing."""

    place: Path
    engine: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        return {**kept, "HOME": str(home), "DOCKER_HOST": f"unix://{self.place}/docker.sock"}

    def run(
        self, *command: str, root: Path, timeout_s: float = 120.0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--net", f"--target={self.engine.pid}", "--", *command]
        return finished(inside, root, {**self.environment, **variables}, timeout_s)

    def docker(self, *words: str) -> str:
        return self.run("docker", *words, root=self.place).stdout.strip()


@contextmanager
def unplugged_room(place: Path) -> Iterator[Room]:
    """`place` must have a short path: an engine's sockets lie in it, and such a path has 107 bytes at most."""
    inside = f"ip link set lo up && exec dockerd {_options(place)}"
    with (place / "dockerd.log").open("wb") as log:
        # Not `ip netns exec`: that hides the control groups, which are mounted below /sys.
        engine = subprocess.Popen(["unshare", "--net", "sh", "-c", inside], stdout=log, stderr=log)
    room = Room(place, engine)
    try:
        until(lambda: engine.poll() is not None or room.docker("version"), "the engine of the room", 60)
        assert engine.poll() is None, (place / "dockerd.log").read_text()
        yield room
    finally:
        _close(room)


def _options(place: Path) -> str:
    folders = {"data-root": "data", "exec-root": "exec", "pidfile": "dockerd.pid"}
    return " ".join(
        [f"--{name}={place / path}" for name, path in folders.items()] + [f"--host=unix://{place}/docker.sock"]
    )


def _close(room: Room) -> None:
    """Containers first: an engine that ends leaves them to their shims."""
    if room.engine.poll() is None:
        containers = room.docker("ps", "--all", "--quiet").split()
        if containers:
            room.docker("rm", "--force", "--volumes", *containers)
        room.engine.terminate()
        room.engine.wait(END_TIMEOUT_S)
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in reversed([path for path in mounted if path.startswith(f"{room.place}/")]):
        subprocess.run(["umount", path], check=True)
    shutil.rmtree(room.place)
