"""All facts of this machine: the host itself, the ports the lab uses, the engine, its limits and its registry."""

import errno
import os
import platform
import re
import shutil
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from looplab.lab.docker.engine import Engine, find_engine
from looplab.lab.docker.images import Registry, ask_registry
from looplab.lab.machine.limits import Limits, probe_limits
from looplab.lab.programs import call
from looplab.lab.settings import PROJECT, project_name
from looplab.system import machine_facts

LIMITS_CACHE = Path(".cache/limits.json")
SERIAL_BY_ID = Path("/dev/serial/by-id")
SERIAL_PATTERNS = ("ttyUSB*", "ttyACM*")


@dataclass(frozen=True)
class SerialDevice:
    """A USB serial device; `path` is the by-id one if udev made it, since ttyUSB numbers change."""

    path: str
    device: str
    group_id: int


@dataclass(frozen=True)
class PortUse:
    """Whether a port that the lab publishes on 127.0.0.1 is taken, by what, and which variable moves it."""

    variable: str
    port: int
    taken: bool
    owner: str = ""


@dataclass(frozen=True)
class HostFacts:
    """The host as its kernel describes it."""

    release: str
    kernel: str
    architecture: str
    cpu: str
    cores: int
    memory_bytes: int
    clock_source: str
    disk_free_bytes: int
    results_writable: bool
    serial: tuple[SerialDevice, ...] = ()


@dataclass(frozen=True)
class Machine:
    """`registry` is None if it was not asked (that takes up to 15 s)."""

    engine: Engine
    host: HostFacts
    limits: Limits
    ports: tuple[PortUse, ...] = ()
    registry: Registry | None = None


def inspect_machine(
    root: Path, ports: Iterable[tuple[str, int]], probe_image: str, *, ask_for: str | None = None
) -> Machine:
    """Collect all facts; `ask_for` is an image whose registry is asked whether it answers."""
    engine = find_engine()
    return Machine(
        engine=engine,
        host=as_containers_see(host_facts(root / "results"), engine),
        limits=probe_limits(engine, probe_image, cache=root / LIMITS_CACHE),
        ports=port_uses(ports, _published_ports(engine, project_name(root))) if engine.local else (),
        registry=ask_registry(ask_for) if ask_for and engine.serves else None,
    )


def host_facts(results: Path) -> HostFacts:
    """Return the host's facts; `results` is the folder that needs disk space."""
    folder = _existing(results)
    return HostFacts(
        release=_release(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=machine_facts.cpu_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        clock_source=machine_facts.clock_source(),
        disk_free_bytes=shutil.disk_usage(folder).free,
        results_writable=os.access(folder, os.W_OK),
        serial=serial_devices(),
    )


def as_containers_see(host: HostFacts, engine: Engine) -> HostFacts:
    """Return the facts with the engine's own cores, memory and kernel where it has a machine of its own."""
    if not engine.in_a_machine_of_its_own:
        return host
    return replace(
        host,
        kernel=engine.kernel or host.kernel,
        cores=engine.cores or host.cores,
        memory_bytes=engine.memory_bytes or host.memory_bytes,
    )


def serial_devices(by_id: Path = SERIAL_BY_ID, dev: Path = Path("/dev")) -> tuple[SerialDevice, ...]:
    """Return every USB serial device once, by its lasting name if it has one."""
    lasting = {link.resolve(): link for link in sorted(by_id.glob("*"))} if by_id.is_dir() else {}
    nodes = sorted({node for pattern in SERIAL_PATTERNS for node in dev.glob(pattern)} | set(lasting))
    return tuple(
        SerialDevice(str(lasting.get(node, node)), str(node), node.stat().st_gid) for node in nodes if node.exists()
    )


def port_uses(ports: Iterable[tuple[str, int]], owners: dict[int, str] | None = None) -> tuple[PortUse, ...]:
    """Try to bind each port on 127.0.0.1; `owners` holds the containers that publish ports."""
    return tuple(_port_use(variable, port, (owners or {}).get(port, "")) for variable, port in ports)


def read_published_ports(listing: str, lab: str = PROJECT) -> dict[int, str]:
    """Return {port: container} from lines of project, container and "127.0.0.1:1883->1883/tcp, …"."""
    owners: dict[int, str] = {}
    for line in listing.splitlines():
        project, name, published = [*line.split("\t"), "", ""][:3]
        owner = f"container {name} of this lab" if project == lab else f"container {name}"
        for mapping in published.split(", "):
            outside, arrow, _ = mapping.partition("->")
            first, _, last = outside.rpartition(":")[2].partition("-")
            if arrow and first.isdigit():
                owners.update(dict.fromkeys(range(int(first), int(last or first) + 1), owner))
    return owners


def files_with_crlf(root: Path, patterns: Sequence[str]) -> list[str]:
    """Return the files with Windows line ends: inside Linux containers the CR becomes part of a value."""
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()]
    return [str(path.relative_to(root)) for path in paths if b"\r\n" in path.read_bytes()[:65536]]


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform(terse=True)


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def _published_ports(engine: Engine, project: str) -> dict[int, str]:
    """Return which container holds which port: the engine's own proxy process would explain nothing."""
    if not engine.serves:
        return {}
    columns = '{{.Label "com.docker.compose.project"}}\t{{.Names}}\t{{.Ports}}'
    return read_published_ports(call(["docker", "ps", "--format", columns]).stdout, project)


def _port_use(variable: str, port: int, owner: str) -> PortUse:
    if owner:
        return PortUse(variable, port, taken=True, owner=owner)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the engine's own proxy binds: a connection in TIME_WAIT does not count as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            if problem.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return PortUse(variable, port, taken=True, owner=_listener(port, problem))
    return PortUse(variable, port, taken=False)


def _listener(port: int, problem: OSError) -> str:
    if problem.errno == errno.EACCES:
        return "the kernel (ports below 1024 need root)"
    # The program's name is known of processes of this user, to root of all.
    listed = call(["ss", "--no-header", "--listening", "--tcp", "--processes", "--numeric", f"sport = :{port}"]).stdout
    found = re.search(r'\(\("([^"]+)",pid=(\d+)', listed)
    return f"{found[1]} (process {found[2]})" if found else "another program"
