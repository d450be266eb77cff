"""The machine's own stalls: a probe pinned to each processor wakes every ten milliseconds and notes how late it was.

With SCHED_FIFO no ordinary task can delay it, so what it sees is the machine: a hypervisor that took the processor, a
kernel that did not let go of it. A process each, because threads of one Python would wait for each other. Its cost is
in bench/README.md.
"""

import mmap
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.system import processes

PERIOD_NS = 10_000_000
# Above every priority that the lab gives.
PRIORITY = 98
# A wake-up this late is a stall.
STALL_NS = 1_000_000
# Lateness in units of 1024 ns falls into bins, eight to an octave.
_PER_OCTAVE = 8
_BINS = 40 * _PER_OCTAVE
_STALLS = 512
# In 64-bit numbers: stalls, their sum, bins of wake-ups, then (due, lateness) of the last stalls.
_COUNT, _SUM, _FIRST_BIN = 0, 1, 2
_FIRST_STALL = _FIRST_BIN + _BINS
_NUMBERS = _FIRST_STALL + 2 * _STALLS


class Probes:
    """Started on making; they end with this process."""

    def __init__(self) -> None:
        self._rows: dict[int, memoryview] = {}
        self._policies: dict[int, str] = {}
        for processor in sorted(os.sched_getaffinity(0)):
            self._start(processor)

    def read(self) -> list[dict[str, Any]]:
        """Return what each probe has seen since its start, as `floor` reads it."""
        return [_seen(processor, self._policies[processor], row) for processor, row in self._rows.items()]

    def _start(self, processor: int) -> None:
        memory = mmap.mmap(-1, 8 * _NUMBERS)
        reader, writer = os.pipe()
        parent = os.getpid()
        if os.fork() == 0:
            try:
                os.write(writer, _prepare(processor).encode())
                os.close(writer)
                _watch(memoryview(memory).cast("q"), parent)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as report:
            self._policies[processor] = report.read()
        self._rows[processor] = memoryview(memory).cast("q")


def _prepare(processor: int) -> str:
    """Pin this process and give it priority if the kernel lets it; return the policy it has."""
    processes.set_name("lab-noise")
    os.sched_setaffinity(0, {processor})
    processes.set_fifo(os.getpid(), PRIORITY)
    return processes.own_scheduling()


def _watch(row: memoryview, parent: int) -> None:
    due = time.monotonic_ns() + PERIOD_NS
    # The parent's end is no signal here: it is process 1 of a namespace that others share.
    while os.getppid() == parent:
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        late_ns = time.monotonic_ns() - due
        row[_FIRST_BIN + _bin(late_ns)] += 1
        if late_ns >= STALL_NS:
            at = _FIRST_STALL + 2 * (row[_COUNT] % _STALLS)
            row[at], row[at + 1] = due, late_ns
            row[_SUM] += late_ns
            row[_COUNT] += 1
        due += PERIOD_NS * (1 + max(0, late_ns) // PERIOD_NS)


def _bin(late_ns: int) -> int:
    units = max(0, late_ns) >> 10
    octave = units.bit_length()
    if octave <= 3:
        return units
    return min(_BINS - 1, (octave - 4) * _PER_OCTAVE + (units >> octave - 4))


def _edge_us(number: int) -> float:
    """Return the upper end of a bin."""
    if number < _PER_OCTAVE:
        return (number + 1) * 1.024
    octave, part = divmod(number, _PER_OCTAVE)
    return ((_PER_OCTAVE + part + 1) << octave - 1) * 1.024


def _seen(processor: int, policy: str, row: memoryview) -> dict[str, Any]:
    bins = row[_FIRST_BIN:_FIRST_STALL].tolist()
    stalls = row[_FIRST_STALL:].tolist()
    return {
        "processor": processor,
        "policy": policy,
        "wakeups": sum(bins),
        "stalls": row[_COUNT],
        "stalled_ns": row[_SUM],
        "bins": {str(number): count for number, count in enumerate(bins) if count},
        "latest": [[due, late] for due, late in zip(stalls[::2], stalls[1::2], strict=True) if late],
    }


def floor(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the noise floor between two scans, one entry a processor; [] where a scan has none.

    `count` are stalls of at least STALL_NS, `sum_us` is their sum, `max_us` and `p99_us` the lateness of all wake-ups
    (upper end of a bin of 9 %, `max_us` exact where it was one of the last stalls), `policy` what the probe ran under.
    """
    first = {entry["processor"]: entry for entry in before.get("noise", ())}
    since_ns = before["clock_ns"]
    return [
        _between(first[entry["processor"]], entry, since_ns)
        for entry in after.get("noise", ())
        if entry["processor"] in first and entry["wakeups"] > first[entry["processor"]]["wakeups"]
    ]


def over(scans: Sequence[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the noise floor of a whole run, from the first of its scans that was answered to the last."""
    good = [scan for scan in scans if scan is not None]
    return floor(good[0], good[-1]) if len(good) > 1 else []


def _between(first: Mapping[str, Any], last: Mapping[str, Any], since_ns: int) -> dict[str, Any]:
    counts = {int(number): count - first["bins"].get(number, 0) for number, count in last["bins"].items()}
    latest = [late for due, late in last["latest"] if due >= since_ns]
    # The bins keep what was longest however many stalls came after it.
    most = max(number for number, count in counts.items() if count)
    longest_us = max(latest) / 1000 if latest and _bin(max(latest)) == most else _edge_us(most)
    return {
        "processor": last["processor"],
        "policy": last["policy"],
        "wakeups": last["wakeups"] - first["wakeups"],
        "count": last["stalls"] - first["stalls"],
        "sum_us": round((last["stalled_ns"] - first["stalled_ns"]) / 1000, 3),
        "max_us": round(longest_us, 3),
        "p99_us": round(_quantile_us(counts, 0.99), 3),
    }


def _quantile_us(counts: Mapping[int, int], share: float) -> float:
    left = share * sum(counts.values())
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return _edge_us(number)
    raise ValueError("no wake-ups")


def real_time(entry: Mapping[str, Any]) -> bool:
    """Return whether the probe ran above all others: what delays any other may be a task, not the machine."""
    return str(entry.get("policy", "")).startswith("SCHED_FIFO")


def worst(floors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the entry with the longest stall, {} of none."""
    return max(floors, key=lambda entry: float(entry["max_us"]), default={})
