"""Hosts are Docker contexts; a context's description holds the address at which other hosts reach it."""

import json
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from looplab.errors import LabError, MachineError, UsageError
from looplab.lab.docker.engine import INFO, NO_ANSWER, Engine, read_engine
from looplab.lab.machine.network import own_address
from looplab.lab.programs import Outcome, call

# The description of a host's context begins so.
MARK = "Looplab host at "
# This machine, as Docker calls it.
HOME = "default"
# ssh connects first, which takes its time.
TIMEOUT_S = 40.0
ADD = "Add it: ./lab hosts add {} ssh://user@machine"


@dataclass(frozen=True)
class Host:
    """A context's name, the address of the machine, where its engine listens."""

    name: str
    address: str
    endpoint: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.endpoint or 'this machine'})"

    @property
    def command(self) -> tuple[str, ...]:
        """The docker command that asks its engine."""
        return ("docker", "--context", self.name)

    def docker(self, *words: str) -> Outcome:
        """Run a docker command at its engine."""
        return call([*self.command, *words], timeout_s=TIMEOUT_S)


def known_hosts() -> dict[str, Host]:
    """Return the hosts that `./lab hosts add` made, by name."""
    listed = call(["docker", "context", "ls", "--format", "{{json .}}"]).stdout.splitlines()
    contexts = [json.loads(line) for line in listed]
    return {
        one["Name"]: Host(one["Name"], one["Description"].removeprefix(MARK), one["DockerEndpoint"])
        for one in contexts
        if one.get("Description", "").startswith(MARK)
    }


def find_host(name: str, bound_to: str = "") -> Host:
    """Return the host of that name, "" or "default" for this machine. Raises LabError (exit code 2)."""
    if name in ("", HOME):
        return Host(HOME, own_address(bound_to))
    known = known_hosts()
    if name not in known:
        raise UsageError(f"There is no host {name!r}; known: {', '.join(known) or 'none'}.", ADD.format(name))
    return known[name]


def add_host(name: str, endpoint: str, address: str = "") -> Host:
    """Make the context of a host that is reached. Raises LabError."""
    url = urlsplit(endpoint)
    if url.scheme not in ("ssh", "unix"):
        raise UsageError(f"{endpoint!r}: expected ssh://user@machine.", "An engine open to a network obeys anybody.")
    host = Host(name, _ipv4(address or url.hostname or ""), endpoint)
    described = ("--description", MARK + host.address, "--docker", f"host={endpoint}")
    made = call(["docker", "context", "create", name, *described])
    if not made.good:
        raise UsageError(
            f"Docker made no context {name}: {made.reason}", f"docker context rm {name}, or take another name."
        )
    try:
        reach(host)
    except LabError:
        call(["docker", "context", "rm", "--force", name])
        raise
    return host


def reach(host: Host) -> Engine:
    """Return what the engine of a host reports. Raises LabError (exit code 3) if it cannot serve."""
    engine = read_engine(host.docker(*INFO), docker=host.command)
    if engine.trouble == NO_ANSWER:
        remedy = f"Is the machine on, and does its engine run? Try: docker --context {host.name} version"
        raise MachineError(f"{host} is not reached: {engine.detail}", remedy)
    if not engine.serves:
        raise MachineError(f"{host}: {engine.message}", f"On that machine: {engine.remedy}")
    return engine


def _ipv4(name: str) -> str:
    """Return the address of a machine as other hosts see it. Raises LabError (exit code 2)."""
    try:
        address = str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]) if name else ""
    except OSError:
        address = ""
    if not address or address.startswith("127."):
        what = f"{name or 'A socket'}: no IPv4 address at which other hosts reach this one."
        raise UsageError(what, "Name it: --address 192.168.1.20")
    return address
