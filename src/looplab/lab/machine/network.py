"""The ports of this machine that the lab uses, and the address at which others find it."""

import errno
import re
import socket
from collections.abc import Mapping, Sequence

from looplab.errors import UsageError
from looplab.lab.programs import call

# RFC 5737 reserves this address for documents: nothing is sent, the system only chooses the address to send from.
ELSEWHERE = ("192.0.2.1", 9)
# The name of a port's owner ends so if it is a container of this lab.
OF_THIS_LAB = " of this lab"


def port_owners(ports: Mapping[str, int], project: str) -> dict[str, str]:
    """Return who holds each port on 127.0.0.1, by its variable; "" for a free one. `project` is this lab's."""
    columns = '{{.Names}}\t{{.Label "com.docker.compose.project"}}\t{{.Ports}}'
    published = call(["docker", "ps", "--format", columns]).stdout.splitlines()
    # Ask the engine first: the name of its proxy process would explain nothing.
    return {name: _publisher(port, published, project) or _holder(port) for name, port in ports.items()}


def _publisher(port: int, published: Sequence[str], project: str) -> str:
    """Return the container that publishes a port, "" if there is none."""
    for line in published:
        name, label, ports = line.split("\t")
        if f":{port}->" in ports:
            return f"container {name}{OF_THIS_LAB if label == project else ''}"
    return ""


def _holder(port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # The engine's proxy binds so, too: a connection in TIME_WAIT does not hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            if problem.errno == errno.EACCES:
                return "the kernel (ports below 1024 need root)"
            if problem.errno != errno.EADDRINUSE:
                raise
        else:
            return ""
    # The kernel shows names of this user's programs alone, to root all.
    listed = call(["ss", "--no-header", "--listening", "--tcp", "--processes", "--numeric", f"sport = :{port}"]).stdout
    match = re.search(r'\(\("([^"]+)",pid=(\d+)', listed)
    return f"{match[1]} (process {match[2]})" if match else "another program"


def own_address(bound_to: str) -> str:
    """Return the address by which others find this machine: the chosen one, else the one it would send from."""
    if bound_to not in ("", "0.0.0.0", "[::]"):
        return bound_to.strip("[]")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
        except OSError:
            raise UsageError(
                "This machine has no address on a network.", "Connect it, or name one: --address ADDRESS"
            ) from None
        return str(probe.getsockname()[0])
