"""Time that the machine's processors were idle, or were taken from this virtual machine, from /proc/stat."""

import os
import re
import time
from pathlib import Path

STAT_FILE = Path("/proc/stat")
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


def steal_s(stat: Path = STAT_FILE) -> float | None:
    """Return the seconds since boot that the hypervisor gave to others, summed over processors; None if unknown."""
    try:
        return sum(times["steal_s"] for times in processor_times(stat).values())
    except (OSError, ValueError, IndexError):
        return None


def busy_share(pause_s: float) -> float:
    """Return which share of the processors' time is used during a pause of so many seconds; 0 if unknown."""
    try:
        before = processor_times()
        time.sleep(pause_s)
        after = processor_times()
    except (OSError, ValueError, IndexError):
        return 0.0
    free_s = sum(after[cpu][key] - before[cpu][key] for cpu in after if cpu in before for key in ("idle_s", "steal_s"))
    return max(0.0, 1 - free_s / (pause_s * len(after)))


def _hz() -> int:
    return os.sysconf("SC_CLK_TCK")
