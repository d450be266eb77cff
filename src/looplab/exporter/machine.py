"""CPU and memory of the lab's parts and of the machine, from /proc.

A part is known by its processes' names, as the treatments know it; the exporter shares their PID namespace.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from looplab.metrics.page import Page
from looplab.system.processes import every

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

# (pid, start time) identifies a process; pids are reused.
Process = tuple[int, int]


class HostWatch:
    """Reads /proc on each call of `add_to`; `names` are those of each part's processes."""

    def __init__(self, names: Mapping[str, Sequence[str]], proc: Path = Path("/proc")) -> None:
        self._part_of = {comm: part for part, comms in names.items() for comm in comms}
        self._proc = proc
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._ticks: dict[Process, int] = {}
        self._spent_ticks = dict.fromkeys(names, 0)

    def add_to(self, page: Page) -> None:
        """Add the parts' processes and the machine."""
        self._add_processes(page)
        self._add_machine(page)

    def _add_processes(self, page: Page) -> None:
        number = dict.fromkeys(self._spent_ticks, 0)
        memory_bytes = dict.fromkeys(self._spent_ticks, 0)
        seen: dict[Process, int] = {}
        for part, process, ticks, pages in self._processes():
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
            if self._spent_ticks[part]:
                page.add("lab_process_cpu_seconds_total", labels, self._spent_ticks[part] * self._tick_s)

    def _processes(self) -> Iterator[tuple[str, Process, int, int]]:
        """Yield part, process, CPU ticks and resident pages of each process of the lab."""
        for pid, comm, fields in every(self._proc):
            if part := self._part_of.get(comm):
                yield part, (pid, int(fields[19])), int(fields[11]) + int(fields[12]), int(fields[21])

    def _add_machine(self, page: Page) -> None:
        for text in (self._proc / "stat").read_text().splitlines():
            name, *fields = text.split()
            if name == "cpu":
                for mode, ticks in zip(_MODES, fields, strict=False):
                    page.add("lab_host_cpu_seconds_total", {"mode": mode}, int(ticks) * self._tick_s)
            elif name == "procs_running":
                page.add("lab_host_runnable", {}, int(fields[0]))
        page.add("lab_host_cpus", {}, os.cpu_count() or 1)
        page.add("lab_host_load1", {}, os.getloadavg()[0])
