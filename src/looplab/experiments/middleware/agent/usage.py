"""What programs use: CPU time, memory and processors of each, with its children; and what their container lacked."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
TICKS_PER_S, PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
# The names in version 2 of control groups come first, then those of version 1.
COUNTER_FILES = ("memory.events", "memory.stat", "memory/memory.oom_control", "memory/memory.stat")


class Stat(NamedTuple):
    """What /proc/<pid>/stat has of a live process; its CPU time includes the children that it has waited for."""

    parent: int
    cpu_s: float


def live_processes() -> dict[int, Stat]:
    stats = {}
    for folder in PROC.glob("[0-9]*"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            state, parent, *fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            if state != "Z":
                stats[int(folder.name)] = Stat(int(parent), sum(map(int, fields[9:13])) / TICKS_PER_S)
    return stats


def family(pid: int, processes: Mapping[int, Stat]) -> list[int]:
    """Return a live process and all its descendants."""
    members = [pid] if pid in processes else []
    for member in members:
        members += [one for one, stat in processes.items() if stat.parent == member]
    return members


def memory_bytes(pid: int) -> int:
    """Return the memory of a process, with its part of what it shares with others (Pss); 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def processors(pids: Iterable[int]) -> list[int]:
    """Return every processor that any thread of the processes may use."""
    allowed: set[int] = set()
    for pid in pids:
        for thread in (PROC / str(pid) / "task").glob("*"):
            with contextlib.suppress(OSError):
                allowed |= os.sched_getaffinity(int(thread.name))
    return sorted(allowed)


def memory_lacked(group: Path = CGROUP) -> dict[str, int]:
    """Return how many processes of a control group the kernel killed for memory, and how much it had to read again.

    That are files, programs above all, whose pages were given up and soon wanted back. 0 where the kernel counts none.
    """
    counters: dict[str, int] = {}
    for name in COUNTER_FILES:
        with contextlib.suppress(OSError):
            counters |= {key: int(value) for key, value in map(str.split, (group / name).read_text().splitlines())}
    read_again = counters.get("workingset_refault_file", 0) * PAGE_BYTES
    return {"killed_for_memory": counters.get("oom_kill", 0), "read_again_bytes": read_again}
