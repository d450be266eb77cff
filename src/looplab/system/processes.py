"""Read from /proc: scheduling, limits, capabilities, CPU time, sockets and container of a process; idle time.

Live processes only; sockets and containers need CAP_SYS_PTRACE, the rest no capability.
"""

import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from looplab.system.own_process import ATTEMPT, scheduling

STAT_FILE = Path("/proc/stat")
CAP_SYS_NICE = 23
# A process holds a capability; has it in the bounding set alone, which permits nothing; or has not even that.
EFFECTIVE, WITHOUT_EFFECT, NOT_GIVEN = "effective", "without effect", "not given"
# /proc/PID/uid_map (user_namespaces(7)) where users are the machine's own.
OWN_USERS = ["0", "0", "4294967295"]
# The same number on every architecture Linux has had it on.
SYS_PIDFD_GETFD = 438

# Into struct tcp_info of linux/tcp.h, which only ever grows at its end.
TCP_INFO_RTO, TCP_INFO_BYTES = 8, 104
_UNLIMITED = ("max", "-1")
# Version 1 of control groups writes "no limit" as the largest multiple of a page.
_NO_MEMORY_LIMIT = 1 << 60

_libc = ctypes.CDLL(None, use_errno=True)


def every(proc: Path = Path("/proc")) -> Iterator[tuple[int, str, list[str]]]:
    """Yield id, name (comm) and the fields of /proc/<pid>/stat from the third on, of each process that is seen."""
    for entry in proc.iterdir():
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                yield int(entry.name), *_stat(entry)


def named(name: str, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of the processes whose name (comm) is `name`, in ascending order."""
    return sorted(pid for pid, comm, _fields in every(proc) if comm == name)


def end_container(pid: int, proc: Path = Path("/proc")) -> None:
    """Kill the first process of the container of `pid`, with which the engine ends the others, and `pid` itself.

    In a PID namespace that containers share, the parent of their first processes is outside: process 0.
    """
    first = pid
    # A process may end meanwhile.
    with contextlib.suppress(OSError):
        while (parent := int(_stat(proc / str(first))[1][1])) > 1:
            first = parent
    for one in {first, pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def identity(pid: int, proc: Path = Path("/proc")) -> dict[str, Any] | None:
    """Return what distinguishes a process from its successor, and its threads' scheduling; None if it has ended.

    `started_ticks` are USER_HZ ticks since boot: pids are reused, (pid, started_ticks) is not.
    """
    root = proc / str(pid)
    try:
        return {
            "pid": pid,
            "started_ticks": int(_stat(root)[1][19]),
            "threads": [thread for tid in _thread_ids(root) if (thread := _thread(tid)) is not None],
        }
    except (ProcessLookupError, FileNotFoundError):
        return None


def facts(pid: int, proc: Path = Path("/proc")) -> dict[str, Any] | None:
    """Return what is known of one process, None if it has ended.

    `cpu_ns` is the CPU time, `children_cpu_ns` that of children that have ended, `cpus` where it may run. `cpu_wait_ns`
    is how long its threads, those that live, were runnable and had no processor (None if the kernel does not count it),
    `runs` how often they got one. `argv` is the command as it runs, empty of a process that is about to end.
    """
    root = proc / str(pid)
    known = identity(pid, proc)
    if known is None:
        return None
    try:
        cpu_ns, cpu_wait_ns, runs = _schedule(root)
        return {
            **known,
            "cpu_ns": cpu_ns,
            "children_cpu_ns": _ticks_ns(_stat(root)[1][13:15]),
            "cpu_wait_ns": cpu_wait_ns,
            "runs": runs,
            "cpus": sorted(os.sched_getaffinity(pid)),
            "argv": (root / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1],
            "rtprio_limit": _field(root / "limits", "Max realtime priority", "unknown"),
            "sys_nice": _capability(root, CAP_SYS_NICE),
            # What a part's start noted: whether a child was granted a priority.
            "attempt": _text(root / "root" / ATTEMPT),
            "sockets": tcp_sockets(pid, proc),
            "container": container_facts(pid, proc),
        }
    except (ProcessLookupError, FileNotFoundError):
        return None


def cpu_s(proc: Path = Path("/proc")) -> float:
    """Return the processor time of all processes that are seen, and of their children that have ended."""
    return sum(sum(map(int, fields[11:15])) for _pid, _comm, fields in every(proc)) / os.sysconf("SC_CLK_TCK")


def processor_times(stat: Path = STAT_FILE) -> dict[str, dict[str, float]]:
    """Return {"0": {"idle_s": …, "steal_s": …, "interrupts_s": …}, …} of each processor of the machine since boot."""
    hz, times = os.sysconf("SC_CLK_TCK"), {}
    for line in re.findall(r"^cpu([0-9].*)$", stat.read_text(), re.MULTILINE):
        number, *words = line.split()
        _user, _nice, _system, idle, iowait, irq, softirq, steal, *_guests = map(int, words)
        times[number] = {"idle_s": (idle + iowait) / hz, "steal_s": steal / hz, "interrupts_s": (irq + softirq) / hz}
    return times


def set_fifo(pid: int, priority: int) -> str:
    """Put every thread of `pid` under SCHED_FIFO; return "" or why the kernel refused."""
    try:
        for tid in _thread_ids(Path(f"/proc/{pid}")):
            # A helper thread may end meanwhile: that is no refusal.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"SCHED_FIFO {priority} for process {pid} refused: {error.strerror}"
    return ""


def tcp_sockets(pid: int, proc: Path = Path("/proc")) -> list[dict[str, Any]] | str:
    """Return the connected TCP sockets of `pid`: both ends, TCP_NODELAY, retransmission time-out, how many segments
    were sent again; or the reason why they cannot be read."""
    # Listing /proc/<pid>/fd would take a further capability; its length alone is for all to read.
    count = int(_field(proc / str(pid) / "status", "FDSize", "0"))
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        return f"not readable: {error.strerror}"
    try:
        entries = [_tcp_socket(pidfd, fd) for fd in range(count)]
    except PermissionError as error:
        return f"not readable: {error.strerror}"
    finally:
        os.close(pidfd)
    return [entry for entry in entries if entry is not None]


def _tcp_socket(pidfd: int, fd: int) -> dict[str, Any] | None:
    copy = _libc.syscall(SYS_PIDFD_GETFD, pidfd, fd, 0)
    if copy < 0:
        error = ctypes.get_errno()
        if error in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise PermissionError(error, os.strerror(error))
        return None
    if not stat.S_ISSOCK(os.fstat(copy).st_mode):
        os.close(copy)
        return None
    with socket.socket(fileno=copy) as sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            return None
        try:
            peer = sock.getpeername()
        except OSError:
            return None
        local = sock.getsockname()
        nodelay = bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    return {
        "local": local[0],
        "local_port": local[1],
        "peer": peer[0],
        "peer_port": peer[1],
        "tcp_nodelay": nodelay,
        "rto_ms": struct.unpack_from("I", info, TCP_INFO_RTO)[0] / 1000,
    }


def _thread_ids(root: Path) -> list[int]:
    return sorted(int(task.name) for task in (root / "task").iterdir())


def _thread(tid: int) -> dict[str, Any] | None:
    """Return one thread's scheduling, None if it has ended, as helper threads do while their process lives on."""
    try:
        return {"tid": tid, "scheduling": scheduling(tid)}
    except ProcessLookupError:
        return None


def _schedule(root: Path) -> tuple[int, int | None, int]:
    """Return CPU time and run-queue wait of a process in ns, and how often it ran.

    By schedstat of all threads (Documentation/scheduler/sched-stats.rst). It knows no ended threads: CPU time of a
    process with several is therefore that of /proc/<pid>/stat, in ticks of 10 ms.
    """
    fields = _stat(root)[1]
    cpu_ns = _ticks_ns(fields[11:13])
    counts = []
    for tid in _thread_ids(root):
        # A thread may end meanwhile; a kernel without SCHED_INFO has no such file.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            counts.append([int(word) for word in (root / "task" / str(tid) / "schedstat").read_text().split()])
    exact = len(counts) == 1 and counts[0][0]
    waits_ns = sum(wait for _cpu, wait, _runs in counts) if counts else None
    return exact or cpu_ns, waits_ns, sum(runs for _cpu, _wait, runs in counts)


def _ticks_ns(fields: list[str]) -> int:
    """Return the sum of times that /proc/<pid>/stat has in ticks."""
    return sum(map(int, fields)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _stat(root: Path) -> tuple[str, list[str]]:
    """Return the name in /proc/<pid>/stat, which may hold spaces and brackets, and the fields behind it."""
    head, _, tail = (root / "stat").read_text("utf-8", "replace").rpartition(")")
    return head.partition("(")[2], tail.split()


def _capability(root: Path, capability: int) -> str:
    """Return what a capability is to a process; one of another user namespace (rootless) is without effect here."""
    effective, given = (int(_field(root / "status", key, "0"), 16) >> capability & 1 for key in ("CapEff", "CapBnd"))
    if effective and (root / "uid_map").read_text().split() == OWN_USERS:
        return EFFECTIVE
    return WITHOUT_EFFECT if given else NOT_GIVEN


def _field(table: Path, key: str, missing: str) -> str:
    """Return the first word behind `key` in a table of /proc."""
    match = re.search(rf"^{key}:?\s+(\S+)", table.read_text(), re.MULTILINE)
    return match[1] if match else missing


def container_facts(pid: int, proc: Path = Path("/proc")) -> dict[str, Any]:
    """Return host name, quota in processors and memory limit in bytes; None where there is no limit, or where kernel or
    engine does not show it."""
    root = proc / str(pid) / "root"
    group = root / "sys/fs/cgroup"
    if (group / "cpu.max").exists() or (group / "cpu.stat").exists():
        quota, _, period = _text(group / "cpu.max").partition(" ")
        memory = _text(group / "memory.max")
    else:
        quota, period = _text(group / "cpu/cpu.cfs_quota_us"), _text(group / "cpu/cpu.cfs_period_us")
        memory = _text(group / "memory/memory.limit_in_bytes")
    limit = None if quota in ("", *_UNLIMITED) or not period else round(int(quota) / int(period), 4)
    return {
        "hostname": _text(root / "etc/hostname"),
        "cpu_limit": limit,
        "memory_limit": int(memory) if memory.isdigit() and int(memory) < _NO_MEMORY_LIMIT else None,
    }


def at_address(address: str, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of the processes in the container with this address, as its own /etc/hosts has it."""
    pids = (pid for pid, _comm, _fields in every(proc))
    return sorted(pid for pid in pids if address in _text(proc / str(pid) / "root/etc/hosts").split())


def files_of(pid: int, patterns: Iterable[str], proc: Path = Path("/proc")) -> list[str]:
    """Return the files of the container of `pid` that match `patterns`, each relative to its root (CAP_SYS_PTRACE)."""
    root = proc / str(pid) / "root"
    with contextlib.suppress(OSError):
        return sorted(str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern))
    return []


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""
