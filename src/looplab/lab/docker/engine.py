"""Find the Docker engine and its Compose, and explain why they do not serve."""

import contextlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from looplab.errors import MachineError
from looplab.lab.programs import NOT_FOUND, TIMED_OUT, Outcome, call

Version = tuple[int, int, int]
# From this version on `include` takes a file twice, as the same choice of two variables; 2.24.4 refuses that.
OLDEST_COMPOSE: Version = (2, 24, 6)

# Why an engine does not serve; "" if it does.
NO_CLIENT = "no client"
NO_RIGHTS = "no rights"
NO_ANSWER = "no answer"
PODMAN = "podman"

# What is wrong, and what the user can do about it.
_TROUBLES = {
    NO_CLIENT: (
        "Docker is not installed: no docker command was found.",
        "Run sudo ./lab setup (on Debian and Ubuntu it installs docker.io), or install Docker Engine.",
    ),
    NO_RIGHTS: (
        "The Docker engine runs, but this user may not use it (permission denied on its socket).",
        "Run sudo usermod -aG docker $USER, log out and in again (or newgrp docker); or use sudo ./lab.",
    ),
    PODMAN: (
        "The lab cannot use this engine: it is Podman.",
        "Install Docker Engine (docker.io), remove podman-docker and unset DOCKER_HOST.",
    ),
    NO_ANSWER: (
        "The Docker engine does not answer: {}",
        "Run ./lab setup as root, or sudo systemctl start docker, or start Docker Desktop.",
    ),
    "": ("", ""),
}
# Containers that still run may overload the engine.
OVERLOADED = "If this machine is overloaded, `./lab down` stops what the lab runs."
COMPOSE_REMEDY = "Run ./lab setup: it installs one (without root, for this user alone)."

DOCKER = ("docker",)
USUAL_ENDPOINTS = ("", "default", "unix:///var/run/docker.sock", "unix:///run/docker.sock")
# An engine on a machine that stress fills needed more than 30 s for a list.
ANSWER_TIMEOUT_S = 120.0
INFO = ("info", "--format", "{{json .}}")


@dataclass(frozen=True)
class Engine:
    """Facts of `docker info`; `trouble` is "" if containers can be started. The command `docker` asks this engine."""

    trouble: str = ""
    detail: str = ""
    server_version: str = ""
    server_id: str = ""
    endpoint: str = ""
    operating_system: str = ""
    kernel: str = ""
    architecture: str = ""
    cores: int = 0
    memory_bytes: int = 0
    cgroup_version: int = 0
    cgroup_driver: str = ""
    rootless: bool = False
    memory_limits: bool = True
    compose: Version | None = None
    docker: tuple[str, ...] = DOCKER

    @property
    def serves(self) -> bool:
        return self.trouble == ""

    @property
    def compose_serves(self) -> bool:
        return self.compose is not None and self.compose >= OLDEST_COMPOSE

    @property
    def local(self) -> bool:
        """Whether the engine's kernel and ports are those of this machine."""
        return self.endpoint in ("", "default") or self.endpoint.startswith("unix://")

    @property
    def in_a_machine_of_its_own(self) -> bool:
        """Whether containers run in a virtual machine or elsewhere: its cores and memory are those that count."""
        return self.serves and (not self.local or "Docker Desktop" in self.operating_system)

    @property
    def message(self) -> str:
        """Why it does not serve."""
        return _TROUBLES[self.trouble][0].format(self.detail)

    @property
    def remedy(self) -> str:
        """What the user can do about that."""
        if self.trouble == NO_ANSWER and self.endpoint not in ("", "default"):
            return f"Start the engine at {self.endpoint}, or unset DOCKER_HOST / run docker context use default."
        return _TROUBLES[self.trouble][1]

    @property
    def compose_message(self) -> str:
        """Why its Compose does not serve."""
        what = f"{show_version(self.compose)} is too old" if self.compose else "is not installed"
        return f"Docker Compose {what}: the lab needs docker compose {show_version(OLDEST_COMPOSE)} or later."


def parse_version(text: str) -> Version | None:
    """Return the first dotted number of a text: "v2.26.1-4" is (2, 26, 1), "24.0" is (24, 0, 0)."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def show_version(version: Version | None) -> str:
    return ".".join(map(str, version or ()))


def find_engine() -> Engine:
    """Ask the engine once; never raises, `trouble` holds what is wrong."""
    return read_engine(call([*DOCKER, *INFO], timeout_s=ANSWER_TIMEOUT_S), os.environ.get("DOCKER_HOST", ""))


def ask(
    *words: str, docker: Sequence[str] = DOCKER, timeout_s: float | None = None, own_session: bool = False
) -> Outcome:
    """Return the engine's answer. Raises MachineError if it is silent: that does not mean that there is nothing."""
    done = call([*docker, *words], timeout_s=timeout_s or ANSWER_TIMEOUT_S, own_session=own_session)
    if done.code == TIMED_OUT:
        raise MachineError(f"The Docker engine does not answer: {done.reason}.", OVERLOADED)
    return done


def read_engine(outcome: Outcome, endpoint: str = "", docker: tuple[str, ...] = DOCKER) -> Engine:
    """Return the facts in the answer of `docker` to INFO (clients of 20.10 exit 0 even without an engine)."""
    if outcome.code == NOT_FOUND:
        return Engine(trouble=NO_CLIENT, detail=outcome.reason)
    info: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        info = json.loads(outcome.stdout)
    client: dict[str, Any] = info.get("ClientInfo") or {}
    plugins = {plugin.get("Name"): plugin for plugin in client.get("Plugins") or []}
    return Engine(
        *_trouble(outcome, info),
        server_version=info.get("ServerVersion") or "",
        server_id=info.get("ID") or "",
        endpoint=endpoint or client.get("Context") or "",
        operating_system=info.get("OperatingSystem") or "",
        kernel=info.get("KernelVersion") or "",
        architecture=info.get("Architecture") or "",
        cores=info.get("NCPU") or 0,
        memory_bytes=info.get("MemTotal") or 0,
        cgroup_version=int(info.get("CgroupVersion") or 1),
        cgroup_driver=info.get("CgroupDriver") or "",
        rootless=any("rootless" in option for option in info.get("SecurityOptions") or []),
        memory_limits=info.get("MemoryLimit") is not False,
        compose=parse_version(plugins.get("compose", {}).get("Version") or ""),
        docker=docker,
    )


def _trouble(outcome: Outcome, info: dict[str, Any]) -> tuple[str, str]:
    complaints = " ".join(info.get("ServerErrors") or []) or outcome.stderr.strip()
    # Podman shows by its docker command, or by its log driver if Docker's command asks its socket.
    signs = ("emulate docker cli using podman", "podmanversion", '"k8s-file"')
    if any(sign in f"{complaints} {outcome.stdout}".lower() for sign in signs):
        return PODMAN, ""
    if "permission denied" in complaints.lower():
        return NO_RIGHTS, ""
    if not info.get("ServerVersion"):
        return NO_ANSWER, complaints or outcome.reason
    return "", ""


def require_engine(engine: Engine) -> None:
    """Raise LabError (exit code 3) unless containers can be started."""
    if not engine.serves:
        raise MachineError(engine.message, engine.remedy)


def require_compose(engine: Engine) -> None:
    """Raise LabError (exit code 3) unless the engine serves and its Compose is new enough."""
    require_engine(engine)
    if not engine.compose_serves:
        raise MachineError(engine.compose_message, COMPOSE_REMEDY)
