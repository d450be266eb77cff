"""The probes of the noise floor, and tasks that take a processor from others: for tests that make a stall."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from looplab.treatments.probes import PRIORITY, Probes

# Above and below the probes: what stalls them is the machine, what does not is an ordinary task's neighbour.
OVER_PROBES, UNDER_PROBES = PRIORITY + 1, 5
# It has one processor for 150 of every 200 ms.
_HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(int(sys.argv[2])))
while True:
    end = time.monotonic() + 0.15
    while time.monotonic() < end: pass
    time.sleep(0.05)
"""


def hog(processor: int, priority: int) -> list[str]:
    """Return the words of a program that takes a processor at a real-time priority, most of the time."""
    return [sys.executable, "-c", _HOG, str(processor), str(priority)]


@contextmanager
def probes() -> Iterator[Probes]:
    """Start the probes, and end their processes afterwards."""
    found = Probes()
    try:
        yield found
    finally:
        for pid in found.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
