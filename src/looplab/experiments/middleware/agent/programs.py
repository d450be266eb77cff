"""Programs of one part: started one after another, stopped in reverse; what each and its children use."""

import contextlib
import os
import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from looplab.errors import MachineError
from looplab.experiments.middleware.systems import ServiceProgram
from looplab.system import own_process
from looplab.system.processes import every

STOP_TIMEOUT_S = 5.0
LOOK_S = 0.05
# The kernel kills a program when the agent ends. If memory runs out, it kills a program before the agent.
ENDS_FIRST = ("setpriv", "--pdeathsig=KILL", "sh", "-c", 'echo 500 2>&- >/proc/self/oom_score_adj; exec "$@"', "sh")
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Version 2 of control groups has the first one, version 1 the second.
COUNTER_FILES = ("memory.events", "memory/memory.oom_control")
# Go prints a duration below a minute as 1.234567ms, 850.3µs or 2.5s.
_DURATION = re.compile(r'"duration":"([0-9.]+)(s|ms|µs|ns)"')
_US = {"s": 1e6, "ms": 1e3, "µs": 1.0, "ns": 1e-3}


class Stat(NamedTuple):
    """What /proc/<pid>/stat has of a live process; its CPU time includes the children that it has waited for."""

    parent: int
    cpu_s: float


class RunningProgram:
    """One program that was started on `processors`; its last line is kept, and the durations that it prints."""

    def __init__(self, program: ServiceProgram, processors: Sequence[int]) -> None:
        self.program = program
        self.durations_us: Counter[int] = Counter()
        self._last_line = "it printed nothing"
        placed = ("taskset", "--cpu-list", ",".join(map(str, processors))) if processors else ()
        self.process = subprocess.Popen(
            [*ENDS_FIRST, *placed, *program.command],
            env={"PATH": os.environ.get("PATH", ""), **program.environment},
            cwd=program.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_ready(self, end_s: float) -> None:
        """Return once the program takes a connection.

        Raises MachineError with the program's last line if it ends, or takes none until `end_s` (monotonic).
        """
        while not connects("127.0.0.1", self.program.port):
            if self.process.poll() is not None or time.monotonic() > end_s:
                # The reader may not have its last line yet.
                self._reader.join(LOOK_S)
                raise MachineError(f"{self.program.name} is not ready: {self._last_line}")
            time.sleep(LOOK_S)

    def facts(self, processes: Mapping[int, Stat]) -> dict[str, Any]:
        """Return what it and its children use now; `ended` is its exit code, None while it runs."""
        pids = family(self.process.pid, processes)
        return {
            "pid": self.process.pid,
            "ended": self.process.poll(),
            "cpu_s": sum(processes[pid].cpu_s for pid in pids),
            "memory_bytes": sum(map(memory_bytes, pids)),
            "processors": processors(pids),
        }

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.program.marked and self.program.marked in line:
                if duration := _DURATION.search(line):
                    self.durations_us[round(float(duration[1]) * _US[duration[2]])] += 1
            elif line.strip():
                self._last_line = line.strip()[:500]


class RunningPrograms:
    """The programs of a part, none to begin with."""

    def __init__(self) -> None:
        self._running: list[RunningProgram] = []

    def start(self, programs: Sequence[ServiceProgram], processors: Sequence[int], timeout_s: float = 90.0) -> None:
        """Start them in order. Raises MachineError, and stops all, if one is not ready by the timeout."""
        self.stop()
        end_s = time.monotonic() + timeout_s
        try:
            for program in programs:
                self._running.append(RunningProgram(program, processors))
                self._running[-1].wait_until_ready(end_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        while self._running:
            own_process.end_child(self._running.pop().process, STOP_TIMEOUT_S)

    def facts(self) -> dict[str, Any]:
        """Return the facts of each program by name, the durations of requests, and how many were killed for memory.

        `cpu_s` is the time of this agent and of all that it has ever started.
        """
        processes = live_processes()
        durations_us = sum((one.durations_us.copy() for one in self._running), Counter[int]())
        services = {one.program.name: one.facts(processes) for one in self._running}
        cpu_s = sum(processes[pid].cpu_s for pid in family(os.getpid(), processes))
        killed = killed_for_memory()
        return {"services": services, "cpu_s": cpu_s, "durations_us": durations_us, "killed_for_memory": killed}


def connects(host: str, port: int) -> bool:
    """Return whether a TCP port takes a connection."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


def live_processes() -> dict[int, Stat]:
    stats = {}
    for pid, _comm, (state, parent, *fields) in every(PROC):
        if state != "Z":
            stats[pid] = Stat(int(parent), sum(map(int, fields[9:13])) / TICKS_PER_S)
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
    """Return every processor that any of the processes may use."""
    allowed: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            allowed |= os.sched_getaffinity(pid)
    return sorted(allowed)


def killed_for_memory(group: Path = CGROUP) -> int:
    """Return how many processes of a control group the kernel killed for memory; 0 where the kernel counts none."""
    counters: dict[str, int] = {}
    for name in COUNTER_FILES:
        with contextlib.suppress(OSError):
            counters |= {key: int(value) for key, value in map(str.split, (group / name).read_text().splitlines())}
    return counters.get("oom_kill", 0)
