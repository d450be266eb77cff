"""A probe pinned to each processor wakes every ten milliseconds and notes how late it was: the machine's own stalls.

With SCHED_FIFO no ordinary task can delay it. So it sees the machine itself: a hypervisor that took the processor, a
kernel that did not let go of it. A process each: threads of one Python wait for each other. Its cost: bench/README.md.
"""

import mmap
import os
import time
from bisect import bisect_left
from typing import Any

from looplab.system import own_process, processes

# This priority is above every other one in the lab.
PERIOD_NS, PRIORITY = 10_000_000, 98
# A wake-up this late is a stall.
STALL_NS = 1_000_000
# The upper ends of the bins of lateness: eight an octave, from 1 us to two minutes.
EDGES_NS = tuple(round(1000 * 2 ** (number / 8)) for number in range(8 * 27))
# Layout in 64-bit numbers: stalls, their sum, bins of wake-ups.
_COUNT, _SUM, _FIRST_BIN = 0, 1, 2
_NUMBERS = _FIRST_BIN + len(EDGES_NS)


def bin_of(late_ns: int) -> int:
    """Return the number of the bin of a lateness."""
    return min(bisect_left(EDGES_NS, late_ns), len(EDGES_NS) - 1)


class Probes:
    """Started on making; they end with this process."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        # Processor and policy of each, and what it writes.
        self._probes: list[tuple[int, str, memoryview]] = []
        for processor in sorted(os.sched_getaffinity(0)):
            self._start(processor)

    def read(self) -> list[dict[str, Any]]:
        """Return what each probe has seen since its start, as looplab.run.quiet reads it."""
        return [_seen(*probe) for probe in self._probes]

    def _start(self, processor: int) -> None:
        """Start a probe, pin it, and give it priority if the kernel lets it."""
        row, parent = memoryview(mmap.mmap(-1, 8 * _NUMBERS)).cast("q"), os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                own_process.set_name("lab-noise")
                _watch(row, parent)
            finally:
                os._exit(0)
        os.sched_setaffinity(pid, {processor})
        processes.set_fifo(pid, PRIORITY)
        self.pids.append(pid)
        self._probes.append((processor, own_process.scheduling(pid), row))


def _watch(row: memoryview, parent: int) -> None:
    due = time.monotonic_ns() + PERIOD_NS
    # The parent's end is no signal here: it is process 1 of a namespace that others share.
    while os.getppid() == parent:
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        late_ns = time.monotonic_ns() - due
        row[_FIRST_BIN + bin_of(late_ns)] += 1
        if late_ns >= STALL_NS:
            row[_SUM] += late_ns
            row[_COUNT] += 1
        due += PERIOD_NS * (1 + max(0, late_ns) // PERIOD_NS)


def _seen(processor: int, policy: str, row: memoryview) -> dict[str, Any]:
    bins = row[_FIRST_BIN:].tolist()
    return {
        "processor": processor,
        "policy": policy,
        "wakeups": sum(bins),
        "stalls": row[_COUNT],
        "stalled_ns": row[_SUM],
        "bins": {str(edge_ns): count for edge_ns, count in zip(EDGES_NS, bins, strict=True) if count},
    }
