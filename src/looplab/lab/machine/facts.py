"""Facts of the host itself that need no engine: processor, memory, disk, ports, serial devices."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CLOCK_SOURCE_FILE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
SERIAL_BY_ID = Path("/dev/serial/by-id")
SERIAL_PATTERNS = ("ttyUSB*", "ttyACM*")


@dataclass(frozen=True)
class SerialDevice:
    """A USB serial device; `path` is the by-id one where udev made it, since ttyUSB numbers change."""

    path: str
    device: str
    group_id: int
    usable: bool


@dataclass(frozen=True)
class PortUse:
    """Whether a port that the lab publishes on 127.0.0.1 is taken, by whom, and which variable moves it."""

    variable: str
    port: int
    taken: bool
    owner: str = ""


@dataclass(frozen=True)
class HostFacts:
    """The machine as its kernel describes it."""

    system: str
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


def host_facts(results: Path) -> HostFacts:
    """`results` is where runs are stored; its disk is the one that counts."""
    return HostFacts(
        system=platform.system(),
        release=_release(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=_cpu_name(),
        cores=_usable_cores(),
        memory_bytes=_memory_bytes(),
        clock_source=_first_line(CLOCK_SOURCE_FILE),
        disk_free_bytes=disk_free_bytes(results),
        results_writable=os.access(_existing(results), os.W_OK),
        serial=serial_devices(),
    )


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").split("\n", 1)[0].strip("\0 ")
    except OSError:
        return ""


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform(terse=True)


def cpu_name_from(cpuinfo: str) -> str:
    """x86 says "model name", a Raspberry Pi "Model"."""
    for key in ("model name", "Model", "Hardware"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        if found:
            return found[1].strip()
    return ""


def _cpu_name() -> str:
    try:
        name = cpu_name_from(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        name = ""
    return name or _first_line(Path("/proc/device-tree/model")) or platform.processor() or platform.machine()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _existing(path: Path) -> Path:
    """The nearest folder that is there already."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def disk_free_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(_existing(path)).free
    except OSError:
        return 0


def serial_devices(by_id: Path = SERIAL_BY_ID, dev: Path = Path("/dev")) -> tuple[SerialDevice, ...]:
    """Every USB serial device once, by its lasting name where it has one."""
    lasting = {link.resolve(): link for link in sorted(by_id.glob("*"))} if by_id.is_dir() else {}
    nodes = sorted({node for pattern in SERIAL_PATTERNS for node in dev.glob(pattern)} | set(lasting))
    return tuple(_serial_device(node, lasting.get(node, node)) for node in nodes if node.exists())


def _serial_device(node: Path, path: Path) -> SerialDevice:
    return SerialDevice(str(path), str(node), node.stat().st_gid, os.access(node, os.R_OK | os.W_OK))


def port_uses(ports: Iterable[tuple[str, int]], owners: dict[int, str] | None = None) -> tuple[PortUse, ...]:
    """Try to bind each port on 127.0.0.1; `owners` names who publishes a port, where that is known."""
    return tuple(_port_use(variable, port, (owners or {}).get(port, "")) for variable, port in ports)


def _port_use(variable: str, port: int, owner: str) -> PortUse:
    if owner:
        return PortUse(variable, port, taken=True, owner=owner)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the engine's own proxy binds: a connection in TIME_WAIT does not count as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            if problem.errno in (errno.EADDRINUSE, errno.EACCES):
                return PortUse(variable, port, taken=True, owner=_listener(port, problem))
            raise
    return PortUse(variable, port, taken=False)


def _listener(port: int, problem: OSError) -> str:
    if problem.errno == errno.EACCES:
        return "the kernel (ports below 1024 need root)"
    inodes = _listening_inodes(port)
    for process in Path("/proc").glob("[0-9]*"):
        if inodes and inodes & _socket_inodes(process):
            return f"{_first_line(process / 'comm')} (process {process.name})"
    return "another program"


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        inodes |= {inode for line in lines if (inode := listening_inode(line, port))}
    return inodes


def listening_inode(line: str, port: int) -> str:
    """The socket's inode if this line of /proc/net/tcp is a listener on `port`, else ""."""
    fields = line.split()
    listening = "0A"
    if len(fields) > 9 and fields[3] == listening and int(fields[1].rpartition(":")[2], 16) == port:
        return fields[9]
    return ""


def _socket_inodes(process: Path) -> set[str]:
    try:
        handles = list((process / "fd").iterdir())
    except OSError:
        return set()
    targets = (_link_target(handle) for handle in handles)
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def _link_target(link: Path) -> str:
    """A handle may be closed while we look."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def files_with_crlf(root: Path, patterns: Sequence[str]) -> list[str]:
    """Files that a Windows checkout has spoilt: inside Linux containers a CR is part of a value."""
    spoilt = []
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and b"\r\n" in path.read_bytes()[:65536]:
                spoilt.append(str(path.relative_to(root)))
    return spoilt
