"""What each part of the lab may do beyond nothing, and whether a Compose file and a running container keep to it."""

import json
import re
from pathlib import Path
from typing import Any

from support.containers import docker
from support.waiting import until

# They change from root to a user that keeps the other capabilities alone.
_PREPARED = {"SETUID", "SETGID"}
LINKS = ("link", "own-link", "qos-delay-link", "qos-delay-link-broker")
CAPTURES = ("capture", "qos-delay-capture", "own-capture")
# What `cap_add` may name, by service. The prioritised parts as published: permitted, not held.
MAY_ADD = {
    "treatments": {"KILL", "SYS_NICE", "SYS_PTRACE", *_PREPARED},
    "prepare": {"CHOWN", "FOWNER", *_PREPARED},
    **{name: {"NET_RAW", *_PREPARED} for name in CAPTURES},
    **{name: {"NET_ADMIN", *_PREPARED} for name in LINKS},
    "broker-prioritised": {"SYS_NICE"},
    **{name: {"SYS_NICE", *_PREPARED} for name in ("scenario5", "scenario8")},
}
# Where the engine refuses the rtprio limit (LAB_PRIORITY_UID=0), this one stays root with SYS_NICE alone.
STAYS_ROOT = {"broker-prioritised"}
# Engines give capabilities to root alone: who needs one starts as root, and becomes its user before a line of the lab's
# own code runs.
STARTS_AS_ROOT = STAYS_ROOT | {name for name, capabilities in MAY_ADD.items() if capabilities >= _PREPARED}
# Numbers of linux/capability.h.
NUMBERS = {
    "CHOWN": 0, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "NET_ADMIN": 12, "NET_RAW": 13, "SYS_PTRACE": 19,
    "SYS_NICE": 23,
}  # fmt: skip
SECCOMP_FILTER = "2"


def mask(capabilities: set[str]) -> int:
    return sum(1 << NUMBERS[name] for name in capabilities)


def is_root(user: str) -> bool:
    return user.partition(":")[0] in ("", "0", "root")


def user_of_image(build: dict[str, Any]) -> str:
    """The USER that the Dockerfile of a Compose `build` ends with, its own or its base stage's."""
    file = Path(build["context"]) / build.get("dockerfile", "Dockerfile")
    users: dict[str, str] = {}
    stage = ""
    for line in file.read_text().splitlines():
        if found := re.match(r"FROM (?:--\S+ )?(\S+)(?: AS (\S+))?", line):
            stage = found[2] or f"stage {len(users)}"
            users[stage] = users.get(found[1], "")
        elif found := re.match(r"USER (\S+)", line):
            users[stage] = found[1]
    return users[build.get("target") or stage]


def users_of_images(services: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The USER of each image that one of these services builds: others start it without a `build` of their own."""
    return {found["image"]: user_of_image(found["build"]) for found in services.values() if "build" in found}


def judge_configuration(name: str, service: dict[str, Any], users: dict[str, str]) -> None:
    """A service as `docker compose config --format json` shows it; `users` are those of the images."""
    assert service.get("read_only") is True, name
    assert service.get("cap_drop") == ["ALL"], name
    # An engine with SELinux would let no part read the checkout, nor the treatments service another part's /proc.
    assert service.get("security_opt") == ["no-new-privileges:true", "label=disable"], name
    assert not service.get("privileged"), name
    assert 0 < int(service.get("pids_limit") or 0) <= 4096, name
    # Controllers that capture their own packets become their usual user before a line of ours.
    captures = any("+net_raw" in word for word in service.get("entrypoint") or [])
    more = {"NET_RAW", *_PREPARED} if captures else set()
    assert set(service.get("cap_add") or []) <= MAY_ADD.get(name, set()) | more, name
    user = str(service.get("user") or users.get(service.get("image", ""), ""))
    assert not is_root(user) or name in STARTS_AS_ROOT or captures, f"{name} runs as root"
    for namespace in ("network_mode", "pid", "ipc", "uts", "userns_mode"):
        assert service.get(namespace) != "host", f"{name}: {namespace}"
    assert "docker.sock" not in json.dumps(service.get("volumes", [])), name


def judge_container(name: str, container: str) -> int:
    """Judge the processes of the service `name`, whose configuration is judged above; return how many are alive."""
    # A part that was killed, or came before what it needs, is started again: the engine names no process meanwhile.
    found = until(lambda: _settled(container), f"{name} after a restart")
    assert found["HostConfig"]["ReadonlyRootfs"], name
    if not found["State"]["Running"]:
        return 0
    return judge_processes(name, docker("top", container, "-eo", "pid").split()[1:])


def _settled(container: str) -> dict[str, Any] | None:
    """What the engine says of a container, None while it is between two starts."""
    found: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return None if found["State"]["Restarting"] else found


def judge_processes(name: str, pids: list[str]) -> int:
    """What the kernel says of a container's processes; those that end meanwhile are not judged."""
    seen = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
        held = mask(MAY_ADD.get(name, set()) - _PREPARED)
        assert name in STAYS_ROOT or "0" not in status["Uid"] + status["Gid"], (name, status["Name"])
        for kind in ("CapPrm", "CapEff", "CapAmb"):
            assert int(status[kind][0], 16) | held == held, (name, kind, status[kind])
        allowed = mask(MAY_ADD.get(name, set()))
        assert int(status["CapBnd"][0], 16) | allowed == allowed, (name, status["CapBnd"])
        assert status["NoNewPrivs"] == ["1"], name
        assert status["Seccomp"] == [SECCOMP_FILTER], name
        seen += 1
    return seen
