"""Programs of one part: started one after another, each once the one before is ready; stopped in reverse."""

import os
import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.middleware.agent import usage
from looplab.experiments.middleware.systems import ServiceProgram
from looplab.system import own_process
from looplab.system.json_client import open_direct

STOP_TIMEOUT_S = 5.0
LOOK_S = 0.05
# The kernel kills a program when the agent ends. If memory runs out, it kills a program before the agent.
ENDS_FIRST = ("setpriv", "--pdeathsig=KILL", "sh", "-c", 'echo 500 2>&- >/proc/self/oom_score_adj; exec "$@"', "sh")
# Go prints a duration as 1.234567ms, 850.3µs or 1m2.5s.
_DURATION = re.compile(r'"duration":"([^"]+)"')
_PIECE = re.compile(r"([0-9.]+)(h|ms|m|s|µs|ns)")
_US = {"h": 3.6e9, "m": 6e7, "s": 1e6, "ms": 1e3, "µs": 1.0, "ns": 1e-3}


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
        """Return once the program answers.

        Raises MachineError with the program's last line if it ends, or does not answer until `end_s` (monotonic).
        """
        while not answers(self.program.health):
            if self.process.poll() is not None or time.monotonic() > end_s:
                # The reader may not have its last line yet.
                self._reader.join(LOOK_S)
                raise MachineError(f"{self.program.name} is not ready: {self._last_line}")
            time.sleep(LOOK_S)

    def facts(self, processes: Mapping[int, usage.Stat]) -> dict[str, Any]:
        """Return what it and its children use now; `ended` is its exit code, None while it runs."""
        family = usage.family(self.process.pid, processes)
        return {
            "pid": self.process.pid,
            "ended": self.process.poll(),
            "cpu_s": sum(processes[pid].cpu_s for pid in family),
            "memory_bytes": sum(map(usage.memory_bytes, family)),
            "processors": usage.processors(family),
        }

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.program.marked and self.program.marked in line:
                if duration := _DURATION.search(line):
                    self.durations_us[round(microseconds(duration[1]))] += 1
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
        """Return the facts of each program by name, the durations of their requests, and what memory they lacked.

        `cpu_s` is the time of this agent and of all that it has ever started.
        """
        processes = usage.live_processes()
        durations_us = sum((one.durations_us.copy() for one in self._running), Counter[int]())
        services = {one.program.name: one.facts(processes) for one in self._running}
        cpu_s = sum(processes[pid].cpu_s for pid in usage.family(os.getpid(), processes))
        return {"services": services, "cpu_s": cpu_s, "durations_us": durations_us, **usage.memory_lacked()}


def microseconds(text: str) -> float:
    """Return a duration as Go prints it."""
    return sum(float(number) * _US[unit] for number, unit in _PIECE.findall(text))


def answers(health: str | int) -> bool:
    """Return whether a URL answers with 200, or a TCP port of this machine takes a connection."""
    if isinstance(health, int):
        return connects("127.0.0.1", health)
    try:
        with open_direct(health, timeout=1.0) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def connects(host: str, port: int) -> bool:
    """Return whether a TCP port takes a connection."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True
