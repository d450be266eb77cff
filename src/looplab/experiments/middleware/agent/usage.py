"""What a program and its children use: CPU time, memory, processors; and whether the kernel killed for memory."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/<pid>/stat after the name: parent, and utime, stime, cutime, cstime.
PARENT, TIMES = 1, slice(11, 15)
CGROUP = Path("/sys/fs/cgroup")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def family(pids: Iterable[int]) -> dict[int, list[int]]:
    """Return {pid: it and all its descendants} of live processes."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[PARENT]), []).append(int(entry.name))
    families = {}
    for pid in pids:
        members = [pid] if _stat(pid) else []
        for one in members:
            members += children.get(one, [])
        families[pid] = members
    return families


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU time of processes and of the children that they have waited for, in ticks of 10 ms."""
    return sum(sum(map(int, fields[TIMES])) for pid in pids if (fields := _stat(pid))) / TICKS_PER_S


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes, what they share divided among them (Pss); resident memory if that is hidden."""
    return sum(map(_memory, pids))


def processors(pids: Iterable[int]) -> list[int]:
    """Return every processor that any thread of the processes may use."""
    allowed: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in (PROC / str(pid) / "task").iterdir():
                with contextlib.suppress(OSError):
                    allowed |= os.sched_getaffinity(int(thread.name))
    return sorted(allowed)


def killed_for_memory() -> int:
    """Return how many processes of this container the kernel has killed for memory; 0 if it does not count."""
    return _counter("oom_kill", ("memory.events", "memory/memory.oom_control"), CGROUP)


def read_again_bytes(group: Path = CGROUP) -> int:
    """Return how much a control group had to read again for lack of memory; 0 if the kernel does not count."""
    # Pages of files, programs above all, that were given up for lack of memory and soon wanted back.
    return _counter("workingset_refault_file", ("memory.stat", "memory/memory.stat"), group) * PAGE_BYTES


def _counter(name: str, files: Iterable[str], group: Path) -> int:
    """Return a counter of a control group, from the first of its files that can be read."""
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            counters = dict(line.split(" ", 1) for line in (group / file).read_text().splitlines())
            return int(counters.get(name, 0))
    return 0


def _stat(pid: int) -> list[str]:
    """Return the fields after the name, [] of a process that has ended."""
    with contextlib.suppress(OSError):
        fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
        return [] if fields[0] == "Z" else fields
    return []


def _memory(pid: int) -> int:
    for name, key in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / name).read_text().splitlines():
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
    return 0
