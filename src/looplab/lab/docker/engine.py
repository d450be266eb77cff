"""Find the Docker engine and its Compose, and explain why they do not serve."""

import contextlib
import json
import os
import re
from dataclasses import dataclass, replace
from typing import Any

from looplab.errors import MachineError
from looplab.lab.programs import Outcome, call

Version = tuple[int, int, int]
# `include` of files with variables and `env_file` with `required` both work from here on.
OLDEST_COMPOSE: Version = (2, 24, 4)

# Why an engine does not serve; "" if it does.
NO_CLIENT = "no client"
NO_RIGHTS = "no rights"
NO_ANSWER = "no answer"
NOT_DOCKER = "not docker"
NOT_LINUX = "not linux"

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
    NOT_DOCKER: ("The lab cannot use this engine: {}.", "Install Docker Engine (docker.io) and remove podman-docker."),
    NOT_LINUX: ("The lab cannot use this engine: {}.", "Switch Docker Desktop to Linux containers."),
    NO_ANSWER: (
        "The Docker engine does not answer: {}",
        "Run ./lab setup as root, or sudo systemctl start docker, or start Docker Desktop.",
    ),
}
COMPOSE_REMEDY = "Run ./lab setup: it installs one (without root, for this user alone)."

USUAL_ENDPOINTS = ("", "default", "unix:///var/run/docker.sock", "unix:///run/docker.sock")
INFO_TIMEOUT_S = 20.0
INFO_COMMAND = ("docker", "info", "--format", "{{json .}}")


@dataclass(frozen=True)
class Engine:
    """Facts of `docker info`; `trouble` is "" if containers can be started."""

    trouble: str = ""
    detail: str = ""
    client_version: str = ""
    server_version: str = ""
    server_id: str = ""
    endpoint: str = ""
    operating_system: str = ""
    kernel: str = ""
    cores: int = 0
    memory_bytes: int = 0
    cgroup_version: int = 0
    cgroup_driver: str = ""
    rootless: bool = False
    compose: Version | None = None
    legacy_compose: Version | None = None

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
    def usual_endpoint(self) -> bool:
        """Whether no DOCKER_HOST or context points elsewhere."""
        return self.endpoint in USUAL_ENDPOINTS


def parse_version(text: str) -> Version | None:
    """Return the first dotted number of a text: "v2.26.1-4" is (2, 26, 1), "24.0" is (24, 0, 0)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def show_version(version: Version) -> str:
    return ".".join(map(str, version))


def find_engine() -> Engine:
    """Ask the engine once; never raises, `trouble` holds what is wrong."""
    outcome = call(INFO_COMMAND, timeout_s=INFO_TIMEOUT_S)
    engine = read_engine(outcome, os.environ.get("DOCKER_HOST", ""))
    # Version 1 starts slowly: ask it only if it can be the explanation.
    return engine if engine.compose else replace(engine, legacy_compose=_legacy_compose())


def read_engine(outcome: Outcome, endpoint: str = "") -> Engine:
    """Return the facts in the answer of INFO_COMMAND (clients of 20.10 exit 0 even without an engine)."""
    if not outcome.found or outcome.code == 126:
        return Engine(trouble=NO_CLIENT, detail=outcome.said)
    info = _document(outcome.stdout)
    client: dict[str, Any] = info.get("ClientInfo") or {}
    plugins = {plugin.get("Name"): plugin for plugin in client.get("Plugins") or []}
    known: dict[str, Any] = {
        "client_version": str(client.get("Version") or ""),
        "endpoint": endpoint or str(client.get("Context") or ""),
        "compose": parse_version(plugins.get("compose", {}).get("Version") or ""),
    }
    trouble, detail = _trouble(outcome, info)
    if trouble:
        return Engine(trouble=trouble, detail=detail, **known)
    return Engine(**known, **_server_facts(info))


def _document(text: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(document := json.loads(text), dict):
            return document
    return {}


def _trouble(outcome: Outcome, info: dict[str, Any]) -> tuple[str, str]:
    complaints = " ".join(info.get("ServerErrors") or []) or outcome.stderr.strip()
    lowered = complaints.lower()
    if "emulate docker cli using podman" in lowered or "podmanversion" in outcome.stdout.lower():
        return NOT_DOCKER, "the docker command here is podman"
    if "permission denied" in lowered:
        return NO_RIGHTS, complaints
    if not info.get("ServerVersion"):
        return NO_ANSWER, complaints or outcome.said
    if info.get("OSType", "linux") != "linux":
        return NOT_LINUX, f"the engine runs {info['OSType']} containers"
    return "", ""


def _server_facts(info: dict[str, Any]) -> dict[str, Any]:
    options = info.get("SecurityOptions") or []
    return {
        "server_version": str(info["ServerVersion"]),
        "server_id": str(info.get("ID") or ""),
        "operating_system": str(info.get("OperatingSystem") or ""),
        "kernel": str(info.get("KernelVersion") or ""),
        "cores": int(info.get("NCPU") or 0),
        "memory_bytes": int(info.get("MemTotal") or 0),
        "cgroup_version": int(info.get("CgroupVersion") or 1),
        "cgroup_driver": str(info.get("CgroupDriver") or ""),
        "rootless": any("rootless" in option for option in options),
    }


def _legacy_compose() -> Version | None:
    """Return the version of `docker-compose` if it is version 1; version 2 under that name is not legacy."""
    answer = call(["docker-compose", "version", "--short"], timeout_s=20)
    version = parse_version(answer.stdout) if answer.good else None
    return version if version is not None and version[0] < 2 else None


def engine_remedy(engine: Engine) -> str:
    """Return what the user can do about an engine that does not serve."""
    if engine.trouble == NO_ANSWER and engine.endpoint not in ("", "default"):
        return f"Start the engine at {engine.endpoint}, or unset DOCKER_HOST / run docker context use default."
    return _TROUBLES[engine.trouble][1]


def engine_message(engine: Engine) -> str:
    return _TROUBLES[engine.trouble][0].format(engine.detail)


def compose_message(engine: Engine) -> str:
    needed = show_version(OLDEST_COMPOSE)
    if engine.compose is not None:
        return f"Docker Compose {show_version(engine.compose)} is too old: the lab needs {needed} or later."
    if engine.legacy_compose is not None:
        legacy = show_version(engine.legacy_compose)
        return f"Only the legacy docker-compose {legacy} is here; the lab needs docker compose {needed} or later."
    return f"Docker Compose is not installed: the lab needs docker compose {needed} or later."


def require_engine(engine: Engine) -> None:
    """Raise LabError (exit code 3) unless containers can be started."""
    if not engine.serves:
        raise MachineError(engine_message(engine), engine_remedy(engine))


def require_compose(engine: Engine) -> None:
    """Raise LabError (exit code 3) unless the engine serves and its Compose is new enough."""
    require_engine(engine)
    if not engine.compose_serves:
        raise MachineError(compose_message(engine), COMPOSE_REMEDY)
