"""What a process of the lab does to itself: its name, its end, its scheduling; its network, and its children's end."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from looplab.errors import LabError

P = ParamSpec("P")
PR_SET_NAME = 15
PR_SET_TIMERSLACK = 29
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
POLICIES = {getattr(os, name): name for name in map("SCHED_{}".format, ("OTHER", "FIFO", "RR", "BATCH", "IDLE"))}
_libc = ctypes.CDLL(None, use_errno=True)
# What a part found that let a child of its own ask for the published priority; `start` of a broker writes it, too.
GRANTED, REFUSED = "granted", "refused"
ATTEMPT = "tmp/fifo_attempt"


def set_name(name: str) -> None:
    """Name this process (at most 15 bytes) so that others find it, and ask for sharp timers (1 ns slack)."""
    _libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    _libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


def program(name: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Return a decorator of a program's main: this process gets the name, and a LabError ends it with its exit code."""

    def decorated(main: Callable[P, int]) -> Callable[P, int]:
        @wraps(main)
        def named(*given: P.args, **more: P.kwargs) -> int:
            set_name(name)
            try:
                return main(*given, **more)
            except LabError as error:
                print(error, file=sys.stderr, flush=True)
                return error.exit_code

        return named

    return decorated


def drop_capabilities() -> None:
    """Give what this process executes next no capability, unless root executes it."""
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set: an exception that a signal raises in a finalizer would be lost."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def devices() -> set[str]:
    """Return the network interfaces of this process, which for a sidecar are another container's."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def ways_out() -> set[str]:
    """Return those that lead elsewhere; the engine removes them when the container ends whose network it is."""
    return devices() - {"lo"}


def run_until_stopped(program: Any) -> int:
    """Have `program` run until SIGTERM or SIGINT, when it is `stopping`, then close it; return the exit code."""

    def stop(*_signal: object) -> None:
        program.stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # gc.freeze(): exempt all existing objects, so that no collection scans them during the run.
    gc.freeze()
    program.run()
    program.close()
    return 0


def end_child(process: "subprocess.Popen[Any]", timeout_s: float) -> None:
    """Ask a child to end, and wait until it has; kill it after `timeout_s`."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def try_fifo(priority: int) -> str:
    """Return whether a child of this process is granted SCHED_FIFO: `granted` or `refused`."""
    tried = subprocess.run(["chrt", "--fifo", str(priority), "true"], capture_output=True, check=False)
    return GRANTED if tried.returncode == 0 else REFUSED


def scheduling(tid: int = 0) -> str:
    """Return the policy of a thread, or of this one, with its priority if it has one, e.g. `SCHED_FIFO 90`.

    Raises ProcessLookupError for a thread that has ended.
    """
    policy, priority = os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority
    name = POLICIES.get(policy & ~os.SCHED_RESET_ON_FORK, f"policy {policy}")
    return f"{name} {priority}" if priority else name
