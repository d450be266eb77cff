"""Facts of this machine: the host itself, and who holds the ports that the lab uses."""

import errno
import os
import platform
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from looplab.errors import UsageError
from looplab.lab.docker.engine import Engine
from looplab.lab.programs import call
from looplab.system import machine_facts, machine_state

SERIAL_BY_ID = Path("/dev/serial/by-id")
SERIAL_PATTERNS = ("ttyUSB*", "ttyACM*")
# RFC 5737 reserves this address for documents: nothing is sent, the system only chooses the address to send from.
ELSEWHERE = ("192.0.2.1", 9)
# The name of a port's owner ends so if it is a container of this lab.
OF_THIS_LAB = " of this lab"


@dataclass(frozen=True)
class HostFacts:
    """The host as its kernel describes it; `serial` are the USB serial devices."""

    release: str
    kernel: str
    architecture: str
    cpu: str
    cores: int
    memory_bytes: int
    clock_source: str
    disk_free_bytes: int
    results_writable: bool
    serial: tuple[str, ...] = ()


def host_facts(results: Path, engine: Engine) -> HostFacts:
    """Return the host's facts; kernel, cores and memory are the engine's if it has a machine of its own.

    `results` is the folder that needs disk space.
    """
    folder = next(place for place in (results.absolute(), *results.absolute().parents) if place.exists())
    facts = HostFacts(
        release=_release(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=machine_facts.cpu_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        clock_source=machine_state.machine_state()["clock_source"],
        disk_free_bytes=shutil.disk_usage(folder).free,
        results_writable=os.access(folder, os.W_OK),
        serial=tuple(map(str, serial_devices())),
    )
    if not engine.in_a_machine_of_its_own:
        return facts
    return replace(facts, kernel=engine.kernel, cores=engine.cores, memory_bytes=engine.memory_bytes)


def serial_devices(by_id: Path = SERIAL_BY_ID, dev: Path = Path("/dev")) -> tuple[Path, ...]:
    """Return every USB serial device once, by its lasting name if udev made one: ttyUSB numbers change."""
    lasting = {link.resolve(): link for link in sorted(by_id.glob("*"))}
    nodes = sorted({node for pattern in SERIAL_PATTERNS for node in dev.glob(pattern)} | set(lasting))
    return tuple(lasting.get(node, node) for node in nodes if node.exists())


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


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform(terse=True)


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
