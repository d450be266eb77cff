"""Time that the machine's processors were idle, or were taken from this virtual machine, from /proc/stat."""

import contextlib
import math
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

STAT_FILE, ROOT = Path("/proc/stat"), Path("/")
# Fields behind the name: user, nice, system, idle, iowait, irq, softirq, steal.
_IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = 3, 4, 5, 6, 7


def processor_times(stat: Path = STAT_FILE) -> dict[str, dict[str, float]]:
    """Return {"0": {"idle_s": …, "steal_s": …, "interrupts_s": …}, …} since boot.

    Also in a container these are the machine's.
    """
    times = {}
    for line in re.findall(r"^cpu([0-9].*)$", stat.read_text(), re.MULTILINE):
        number, *words = line.split()
        ticks = [int(word) for word in words]
        idle, steal = ticks[_IDLE] + ticks[_IOWAIT], ticks[_STEAL]
        interrupts = ticks[_IRQ] + ticks[_SOFTIRQ]
        times[number] = {"idle_s": idle / _hz(), "steal_s": steal / _hz(), "interrupts_s": interrupts / _hz()}
    return times


class BusyWatch:
    """Watches from now on which share of the processors' time others use than this process and its children.

    The containers of the processes `own` are no others either.
    """

    def __init__(self, own: Iterable[int] = ()) -> None:
        self._own = tuple(own)
        self._begun_s, self._spare_s = time.monotonic(), self._free_or_own_s()

    @property
    def elapsed_s(self) -> float:
        """The time since the watch began."""
        return time.monotonic() - self._begun_s

    def share(self) -> float:
        """Return the share; 0 if the system does not count."""
        spare = (self._free_or_own_s() - self._spare_s) / (self.elapsed_s * (os.cpu_count() or 1))
        return 0.0 if math.isnan(spare) else max(0.0, 1 - spare)

    def _free_or_own_s(self) -> float:
        """Return for how long the processors were free, or worked for this lab; not a number if nobody counts."""
        try:
            free_s = sum(times["idle_s"] + times["steal_s"] for times in processor_times().values())
        except (OSError, ValueError, IndexError):
            return math.nan
        return free_s + sum(os.times()[:4]) + sum(map(container_cpu_s, self._own))


def container_cpu_s(pid: int, root: Path = ROOT) -> float:
    """Return the processor time of the control group of a process; 0 where it has ended or the system does not count.

    The kernel's pages cgroup-v1/cpuacct and cgroup-v2 describe the files.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in (root / f"proc/{pid}/cgroup").read_text().splitlines():
            _number, controllers, path = line.split(":", 2)
            if "cpuacct" in controllers.split(","):
                return int((root / f"sys/fs/cgroup/cpuacct{path}/cpuacct.usage").read_text()) / 1e9
            if not controllers and (stat := root / f"sys/fs/cgroup{path}/cpu.stat").exists():
                return int(stat.read_text().split()[1]) / 1e6
    return 0.0


def _hz() -> int:
    return os.sysconf("SC_CLK_TCK")
