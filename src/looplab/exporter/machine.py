"""CPU and memory of the lab's parts and of the machine, from /proc.

A part is known by its processes' names, as the treatments know it; the exporter shares their PID namespace.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from looplab.metrics.text_format import line

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

# (pid, start time) identifies a process; pids are reused.
Process = tuple[int, int]


class HostWatch:
    """Reads /proc on each call of `texts`; `names` are those of each part's processes."""

    def __init__(self, names: Mapping[str, Sequence[str]], proc: Path = Path("/proc")) -> None:
        self._parts = tuple(names)
        self._part_of = {comm: part for part, comms in names.items() for comm in comms}
        self._proc = proc
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._ticks: dict[Process, int] = {}
        self._spent_ticks = dict.fromkeys(self._parts, 0)

    def texts(self) -> dict[str, str]:
        """Return sample lines by family."""
        return {**self._processes(), **self._machine()}

    def _processes(self) -> dict[str, str]:
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
        texts = {"lab_processes": "".join(line("lab_processes", {"part": part}, n) for part, n in number.items())}
        there = [part for part in self._parts if number[part]]
        texts["lab_process_resident_memory_bytes"] = "".join(
            line("lab_process_resident_memory_bytes", {"part": part}, memory_bytes[part]) for part in there
        )
        texts["lab_process_cpu_seconds_total"] = "".join(
            line("lab_process_cpu_seconds_total", {"part": part}, round(ticks * self._tick_s, 2))
            for part, ticks in self._spent_ticks.items()
            if ticks or part in there
        )
        return texts

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

    def _machine(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        cpus = 0
        for text in self._lines("stat"):
            name, *fields = text.split()
            if name == "cpu":
                texts["lab_host_cpu_seconds_total"] = "".join(
                    line("lab_host_cpu_seconds_total", {"mode": mode}, round(int(ticks) * self._tick_s, 2))
                    for mode, ticks in zip(_MODES, fields, strict=False)
                )
            elif name.startswith("cpu"):
                cpus += 1
            elif name == "ctxt":
                texts["lab_host_context_switches_total"] = line("lab_host_context_switches_total", {}, int(fields[0]))
            elif name == "procs_running":
                texts["lab_host_runnable"] = line("lab_host_runnable", {}, int(fields[0]))
        texts["lab_host_cpus"] = line("lab_host_cpus", {}, cpus) if cpus else ""
        for text in self._lines("loadavg"):
            texts["lab_host_load1"] = line("lab_host_load1", {}, float(text.split()[0]))
        memory = dict(text.split()[:2] for text in self._lines("meminfo"))
        for name, family in (
            ("MemAvailable:", "lab_host_memory_available_bytes"),
            ("MemTotal:", "lab_host_memory_total_bytes"),
        ):
            if name in memory:
                texts[family] = line(family, {}, int(memory[name]) * 1024)
        return texts

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []
