"""Programs of one part: started one after another, each once the one before is ready; stopped in reverse."""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.middleware.agent import usage
from looplab.experiments.middleware.systems import Program
from looplab.system.direct_http import open_direct

STOP_TIMEOUT_S = 5.0
LOOK_S = 0.05
# Where memory ends, the kernel ends a program, not the agent that reports it.
EXPENDABLE = "500"
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
# As Go prints a duration: 1.234567ms, 850.3µs, 1m2.5s.
_DURATION = re.compile(r'"duration":"([^"]+)"')
_PIECE = re.compile(r"([0-9.]+)(h|ms|m|s|µs|ns)")
_US = {"h": 3.6e9, "m": 6e7, "s": 1e6, "ms": 1e3, "µs": 1.0, "ns": 1e-3}


class Running:
    """One program that was started on `processors`; its last line is kept."""

    def __init__(
        self, program: Program, processors: Sequence[int], note: Callable[[float], None], end_s: float
    ) -> None:
        self.program = program
        self._last_line = "it printed nothing"
        self._note, self._end_s = note, end_s
        try:
            self.process = subprocess.Popen(
                program.command,
                env={"PATH": os.environ.get("PATH", ""), **program.environment},
                cwd=program.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                preexec_fn=lambda: _confine(processors),
            )
        except OSError as error:
            raise MachineError(f"{program.name} cannot be started: {error}.") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_ready(self) -> None:
        """Return once the program answers.

        Raises LabError (exit code 3) with the program's last line if it ends or takes too long.
        """
        while not answers(self.program.health):
            if self.process.poll() is not None or time.monotonic() > self._end_s:
                # Its last line may be on the way.
                self._reader.join(LOOK_S)
                raise MachineError(f"{self.program.name} is not ready: {self._last_line}")
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """End it, by force if it does not."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def facts(self, pids: Sequence[int], *, light: bool) -> dict[str, Any]:
        """Return what it uses now, CPU time alone if `light`; `ended` is its exit code, None while it runs."""
        facts = {"pid": self.process.pid, "ended": self.process.poll(), "cpu_s": usage.cpu_s(pids)}
        if light:
            return facts
        return {**facts, "memory_bytes": usage.memory_bytes(pids), "processors": usage.processors(pids)}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.program.marked and self.program.marked in line:
                if duration := _DURATION.search(line):
                    self._note(microseconds(duration[1]))
            elif line.strip():
                self._last_line = line.strip()[:500]


class Programs:
    """The programs of a part, none to begin with."""

    def __init__(self) -> None:
        self._running: list[Running] = []
        self._durations_us: dict[int, int] = {}
        self._lock = threading.Lock()

    def start(self, programs: Sequence[Program], processors: Sequence[int], timeout_s: float = 90.0) -> None:
        """Start them in order. Raises LabError (exit code 3), and stops all, if one is not ready by the timeout."""
        self.stop()
        self._durations_us.clear()
        end_s = time.monotonic() + timeout_s
        try:
            for program in programs:
                self._running.append(Running(program, processors, self._note, end_s))
                self._running[-1].wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        while self._running:
            self._running.pop().stop()

    def facts(self, *, light: bool = False) -> dict[str, Any]:
        """Return the facts of each program by name, and what belongs to all."""
        pids = usage.family(one.process.pid for one in self._running)
        return {
            "services": {one.program.name: one.facts(pids[one.process.pid], light=light) for one in self._running},
            "killed_for_memory": usage.killed_for_memory(),
            "read_again_bytes": usage.read_again_bytes(),
        }

    def durations(self) -> dict[str, int]:
        """Return {microseconds a request took in the program: how many} since this was last asked."""
        with self._lock:
            durations_us, self._durations_us = self._durations_us, {}
        return {str(value): count for value, count in durations_us.items()}

    def _note(self, value_us: float) -> None:
        with self._lock:
            key = round(value_us)
            self._durations_us[key] = self._durations_us.get(key, 0) + 1


def microseconds(text: str) -> float:
    """Return a duration as Go prints it."""
    return sum(float(number) * _US[unit] for number, unit in _PIECE.findall(text))


def answers(health: str | int) -> bool:
    """Return whether a URL answers with 200, or a TCP port of this machine takes a connection."""
    try:
        if isinstance(health, int):
            return connects("127.0.0.1", health)
        with open_direct(health, timeout=1.0) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False


def connects(host: str, port: int) -> bool:
    """Return whether a TCP port takes a connection."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


def _confine(processors: Sequence[int]) -> None:
    """In the child: use these processors only, end with the agent, however that ends, and before it for memory."""
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # Some containers are more expendable already.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(EXPENDABLE)
    if processors:
        os.sched_setaffinity(0, processors)
