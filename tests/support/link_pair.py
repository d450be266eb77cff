"""Two containers on a network of their own, an emulator beside the first, a responder beside the second."""

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looplab.lab.docker.engine import find_engine
from looplab.lab.machine.limits import rt_budget_us
from support.containers import docker, logs
from support.places import ROOT
from support.waiting import until

HARDENED = ("--read-only", "--tmpfs", "/run:uid=10010", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
# The checkout's own code in the image's packages: a test never sees an older one.
SOURCES = ("--volume", f"{ROOT / 'src/looplab'}:/opt/looplab/looplab:ro")
# As compose/loop.yaml adds them.
CAPABILITIES = ("NET_ADMIN", "SETUID", "SETGID")
PEER = "peer"
SCRIPT = ROOT / "tests/support/link_checks.py"
# CPU time at real-time priority a second (us) of the emulator with its prober, and of the responder.
RT_EMULATOR_US, RT_RESPONDER_US = 500_000, 200_000
FIFO = 90


@dataclass
class Pair:
    """`target` is where the link is, `peer` its other end; everything is removed by `close`."""

    image: str
    network: str = field(default_factory=lambda: f"looplab-test-{secrets.token_hex(4)}")
    containers: list[str] = field(default_factory=list)
    target: str = ""
    peer: str = ""

    def open(self) -> None:
        docker("network", "create", self.network)
        self.target = self.sleeper("target")
        self.peer = self.sleeper(PEER)

    def sleeper(self, alias: str) -> str:
        """A container that only is on the network."""
        words = ("--init", "--network", self.network, "--network-alias", alias, "--entrypoint", "sleep")
        return self.start(*words, self.image, "3600")

    def start(self, *words: str) -> str:
        container = docker("run", "--detach", *words)
        self.containers.append(container)
        return container

    def responder(self) -> str:
        """Answers probes beside the peer, at real-time priority where this machine lets it."""
        options = [*self._options(self.peer), "--volume", f"{SCRIPT}:/link_checks.py:ro", "--entrypoint", "python3"]
        return self._prioritised(options, RT_RESPONDER_US, "/link_checks.py", "--echo")

    def emulator(self, capabilities: Sequence[str] = CAPABILITIES, environment: dict[str, str] | None = None) -> str:
        """An emulator beside the target."""
        return self.start(*self._options(self.target, capabilities, environment), self.image)

    def emulator_at_the_peer(self) -> str:
        """Another emulator beside the peer."""
        return self.start(*self._options(self.peer), self.image)

    def ready_emulator(self, *capabilities: str, real_time: bool = False) -> str:
        """An emulator that answers, with `real_time` at that priority where this machine lets it."""
        options = self._options(self.target, (*CAPABILITIES, *capabilities))
        container = self._prioritised(options, RT_EMULATOR_US) if real_time else self.start(*options, self.image)
        until(lambda: "0 links" in logs(container), "the emulator", 20)
        if real_time:
            prioritise(container)
        return container

    @staticmethod
    def _options(
        container: str, capabilities: Sequence[str] = CAPABILITIES, environment: dict[str, str] | None = None
    ) -> list[str]:
        options = [*HARDENED, *SOURCES, "--network", f"container:{container}"]
        options += [word for name in capabilities for word in ("--cap-add", name)]
        return options + [word for name, value in (environment or {}).items() for word in ("--env", f"{name}={value}")]

    def _prioritised(self, options: Sequence[str], rt_us: int, *words: str) -> str:
        """Start a container with a real-time budget, without one where there is none, and say so."""
        created = subprocess.run(
            ["docker", "create", "--cpu-rt-runtime", str(rt_us), *options, self.image, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        # Kernels without RT_GROUP_SCHED refuse it.
        found = created.stdout.strip()
        # One that could not start is there all the same, and is to be removed.
        self.containers += [found] if found else []
        if created.returncode or not _started(found, rt_us):
            print(f"at ordinary priority, without a real-time budget: {created.stderr.strip() or 'none is left'}")
            found = self.start(*options, self.image, *words)
        return found

    def close(self) -> None:
        for container in reversed(self.containers):
            with contextlib.suppress(AssertionError):
                docker("rm", "--force", "--volumes", container)
        docker("network", "rm", self.network)


def _started(container: str, rt_us: int) -> bool:
    """Start a container once the engine's budget has `rt_us` for it; other tests' containers may hold it a moment."""

    def start() -> bool:
        return subprocess.run(["docker", "start", container], capture_output=True, check=False).returncode == 0

    if start():
        return True
    if (rt_budget_us(find_engine()) or 0) < rt_us:
        return False
    with contextlib.suppress(AssertionError):
        until(start, "a real-time budget")
        return True
    return False


def pids(container: str) -> dict[str, int]:
    """Process id on this host by the process's name."""
    lines = docker("top", container, "-eo", "pid,comm").splitlines()[1:]
    return {line.split()[1]: int(line.split()[0]) for line in lines}


def prioritise(container: str) -> None:
    """SCHED_FIFO for what emulates and probes; without it a loaded machine is measured, not a link."""
    for pid in docker("top", container, "-eo", "pid").splitlines()[1:]:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{int(pid)}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(FIFO))


def in_container(container: str, script: str, *words: str) -> str:
    """What a Python script prints; it must end well."""
    command = ["docker", "exec", "--interactive", container, "python3", "-", *words]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode in (0, 1), f"{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def request(container: str, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """Status and document of a request to the emulator, made in its network namespace."""
    script = f"""
import http.client, json
connection = http.client.HTTPConnection("127.0.0.1", 9107, timeout=20)
body = {json.dumps(body) if not isinstance(body, str) else body!r}
connection.request({method!r}, {path!r}, body, {{"Content-Type": "application/json"}})
answer = connection.getresponse()
print(json.dumps([answer.status, json.loads(answer.read())]))
"""
    status, document = json.loads(in_container(container, script))
    return int(status), document


def round_trip_ms(container: str, peer: str = PEER) -> float:
    """Median of ten ICMP echoes from a container's network namespace."""
    script = f"""
import socket
from looplab.link.ping import ping
print(ping(socket.gethostbyname({peer!r}), 10)["p50"])
"""
    return float(in_container(container, script))


def exit_code(container: str, timeout_s: float) -> int:
    """Wait for a container's end."""
    until(lambda: docker("inspect", "--format", "{{.State.Running}}", container) == "false", "its end", timeout_s)
    return int(docker("inspect", "--format", "{{.State.ExitCode}}", container))
