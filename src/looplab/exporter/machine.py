"""CPU and memory of the lab's parts and of the machine, from /proc.

A part is known by its processes' names, as the treatments know it; the exporter shares their PID namespace.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from looplab.metrics.page import Page

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

# (pid, start time) identifies a process; pids are reused.
Process = tuple[int, int]


class HostWatch:
    """Reads /proc on each call of `add_to`; `names` are those of each part's processes."""

    def __init__(self, names: Mapping[str, Sequence[str]], proc: Path = Path("/proc")) -> None:
        self._parts = tuple(names)
        self._part_of = {comm: part for part, comms in names.items() for comm in comms}
        self._proc = proc
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._ticks: dict[Process, int] = {}
        self._spent_ticks = dict.fromkeys(self._parts, 0)

    def add_to(self, page: Page) -> None:
        """Add the parts' processes and the machine."""
        self._add_processes(page)
        self._add_machine(page)

    def _add_processes(self, page: Page) -> None:
        number = dict.fromkeys(self._parts, 0)
        memory_bytes = dict.fromkeys(self._parts, 0)
        seen: dict[Process, int] = {}
        for pid in os.listdir(self._proc):
            stat = self._stat(pid) if pid.isdigit() else None
            if stat is None:
                continue
            part, process, ticks, pages = stat
            number[part] += 1
            memory_bytes[part] += pages * self._page_bytes
            # Summed by steps, so that a part's total never falls when one of its processes ends.
            self._spent_ticks[part] += ticks - self._ticks.get(process, 0)
            seen[process] = ticks
        self._ticks = seen
        for part, count in number.items():
            labels = {"part": part}
            page.add("lab_processes", labels, count)
            if count:
                page.add("lab_process_resident_memory_bytes", labels, memory_bytes[part])
            if count or self._spent_ticks[part]:
                page.add("lab_process_cpu_seconds_total", labels, round(self._spent_ticks[part] * self._tick_s, 2))

    def _stat(self, pid: str) -> tuple[str, Process, int, int] | None:
        """Return (part, process, CPU ticks, resident pages) of a process of the lab, else None."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb") as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return None
        head, _, tail = text.rpartition(")")
        part = self._part_of.get(head.partition("(")[2])
        if part is None:
            return None
        fields = tail.split()
        process = (int(pid), int(fields[19]))
        return part, process, int(fields[11]) + int(fields[12]), int(fields[21])

    def _add_machine(self, page: Page) -> None:
        cpus = 0
        for text in self._lines("stat"):
            name, *fields = text.split()
            if name == "cpu":
                for mode, ticks in zip(_MODES, fields, strict=False):
                    spent_s = round(int(ticks) * self._tick_s, 2)
                    page.add("lab_host_cpu_seconds_total", {"mode": mode}, spent_s)
            elif name.startswith("cpu"):
                cpus += 1
            elif name == "procs_running":
                page.add("lab_host_runnable", {}, int(fields[0]))
        page.add("lab_host_cpus", {}, cpus)
        for text in self._lines("loadavg"):
            page.add("lab_host_load1", {}, float(text.split()[0]))

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []
