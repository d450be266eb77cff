"""What the benchmarks beside the C loop share: its image, containers on a network of their own, the broker's start."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from looplab.lab.checkout import Lab
from looplab.lab.image_names import BASE

ROOT = Path(__file__).resolve().parents[1]
FLOOR = "looplab/floor:dev"
# The broker as the lab starts it, by the name `broker`; its image comes after.
BROKER = (
    *("--entrypoint", "/mosquitto/lab/start", "--network-alias", "broker", "--env", "FIDELITY=corrected"),
    *("--volume", f"{ROOT}/compose/mosquitto:/mosquitto/lab:ro"),
)


def docker(*words: str, feed: str = "", good: tuple[int, ...] = (0,)) -> str:
    """Return what a command of the engine prints; end the program with its message for an exit code not in `good`."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, input=feed, check=False)
    if done.returncode not in good:
        sys.exit(f"docker {' '.join(words[:3])}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def build_floor(lab: Lab) -> None:
    """Build the C loop on the base that this machine has."""
    base = lab.settings().get(BASE)
    words = ["--build-arg", f"BASE_IMAGE={base}"] if base else []
    file = ["--file", f"{ROOT}/bench/floor.Dockerfile"]
    docker("build", "--quiet", *words, "--tag", FLOOR, *file, f"{ROOT}/bench")


@contextmanager
def network(name: str) -> Iterator[Any]:
    """Make a network as long as the context lasts; yield what starts a container on it, a context of its own."""
    docker("network", "create", name)
    try:
        yield partial(_container, name)
    finally:
        docker("network", "rm", name)


@contextmanager
def _container(network_name: str, *words: str) -> Iterator[str]:
    name = docker("run", "--detach", "--network", network_name, *words)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)
