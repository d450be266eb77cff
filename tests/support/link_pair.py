"""Two containers on a network of their own, an emulator beside the first."""

import contextlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.containers import docker, logs
from support.image_harness import HARDENED, Container
from support.places import ROOT
from support.waiting import until

# The checkout's own code in the image's packages: a test never sees an older one.
SOURCES = ("--volume", f"{ROOT / 'src/looplab'}:/opt/looplab/looplab:ro")
OPTIONS = (*HARDENED, "--tmpfs", "/run:uid=10010", *SOURCES)
# As compose/loop.yaml adds them.
CAPABILITIES = ("NET_ADMIN", "SETUID", "SETGID")
PEER = "peer"
SCRIPT = ROOT / "tests/support/link_checks.py"


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

    def emulator(self, container: str = "", capabilities: Sequence[str] = CAPABILITIES, **environment: str) -> str:
        """An emulator beside the target, or beside another container, that has answered or ended."""
        options = [word for name in capabilities for word in ("--cap-add", name)]
        options += [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        made = self.start(*OPTIONS, *beside(container or self.target), *options, self.image)
        until(lambda: "0 links" in logs(made) or not Container(made).state()["Running"], "the emulator", 20)
        return made

    def close(self) -> None:
        for container in reversed(self.containers):
            with contextlib.suppress(AssertionError):
                docker("rm", "--force", "--volumes", container)
        docker("network", "rm", self.network)


def beside(container: str) -> tuple[str, str]:
    return "--network", f"container:{container}"


def pids(container: str) -> dict[str, int]:
    """Process id on this host by the process's name."""
    lines = docker("top", container, "-eo", "pid,comm").splitlines()[1:]
    return {line.split()[1]: int(line.split()[0]) for line in lines}


def in_container(container: str, script: str, *words: str) -> str:
    """What a Python script prints; it must end well."""
    return docker("exec", "--interactive", container, "python3", "-", *words, given=script, timeout_s=900)


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


def round_trip_ms(container: str) -> float:
    """Least of ten ICMP echoes from a container's network namespace."""
    script = f"from looplab.link.ping import ping; print(ping({PEER!r}, 10)['min'])"
    return float(in_container(container, script))
