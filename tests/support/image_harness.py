"""Containers of the image tests: built under tags of their own, hardened as the lab runs them, always removed."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from looplab.lab.docker.own_images import share_authorities
from support.containers import base_image, docker, logs
from support.places import ROOT
from support.waiting import until

HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
RECEIVED = "$SYS/broker/publish/messages/received"


def build(tag: str, folder: str, file: str = "Dockerfile", *options: str) -> str:
    """Build `folder` and return `tag`, a name below looplab-test/: ./lab test removes those."""
    share_authorities(ROOT)
    context = ROOT / folder
    base = f"BASE_IMAGE={base_image()}"
    words = (*options, "--quiet", "--build-arg", base, "--tag", tag, "--file", str(context / file), str(context))
    docker("build", *words, timeout_s=540.0)
    return tag


@dataclass
class Container:
    """A container that a test started."""

    id: str

    def execute(self, *command: str) -> str:
        return docker("exec", self.id, *command)

    def logs(self) -> str:
        return logs(self.id)

    def events(self) -> list[dict[str, Any]]:
        """The JSON lines of its standard output."""
        return [json.loads(line) for line in docker("logs", self.id).splitlines()]

    def processes(self) -> list[dict[str, str]]:
        """pid, uid, name, CPU seconds and resident KiB of every process, as the host sees them."""
        lines = docker("top", self.id, "-eo", "pid,uid,comm,cputimes,rss").splitlines()[1:]
        return [dict(zip(("pid", "uid", "name", "cpu_s", "rss_kib"), line.split(), strict=True)) for line in lines]

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(docker("inspect", "--format", "{{json .State}}", self.id))
        return found

    def stop(self) -> float:
        """Stop it; returns how many seconds that took."""
        begun_s = time.monotonic()
        docker("stop", "--time", "20", self.id)
        return time.monotonic() - begun_s

    def wait_for_end(self, timeout_s: float) -> int:
        """Wait for its end; returns its exit code."""
        until(lambda: not self.state()["Running"], "the end of the container", timeout_s)
        return int(self.state()["ExitCode"])


Starter = Callable[..., Container]


def starter(at_end: contextlib.ExitStack) -> Starter:
    """start(image, *arguments, options=(...)) runs a hardened container in the background, removed `at_end`."""

    def start(image: str, *arguments: str, options: tuple[str, ...] = ()) -> Container:
        container = Container(docker("create", *HARDENED, *options, image, *arguments).strip())
        at_end.callback(docker, "rm", "--force", "--volumes", container.id)
        docker("start", container.id)
        return container

    return start


def published_at(broker: Container) -> int:
    """PUBLISH packets that the broker says it received."""
    return int(broker.execute("mosquitto_sub", "-t", RECEIVED, "-C", "1", "-W", "5"))


def configuration(fidelity: str) -> tuple[str, ...]:
    """Options that configure the broker as compose/broker.mosquitto.yaml does."""
    return (
        *("--volume", f"{ROOT / 'compose/mosquitto'}:/mosquitto/lab:ro", "--entrypoint", "/mosquitto/lab/start"),
        *("--tmpfs", "/tmp", "--env", f"FIDELITY={fidelity}"),
    )
