"""What moves a latency on one and the same machine, and may change between two runs or within one."""

from pathlib import Path
from typing import Any

SYS, PROC = Path("/sys"), Path("/proc")
CLOCK_SOURCE = Path("devices/system/clocksource/clocksource0/current_clocksource")
UNKNOWN, NONE = "unknown", "none"
# Two runs that differ in one of these do not repeat each other.
SHARED = (
    "governor", "energy_preference", "boost", "smt", "idle_driver", "power_source", "clock_source",
    "kernel_command_line",
)  # fmt: skip
# Two clocks are read one after the other: the shortest of so many readings counts.


def machine_state(sys: Path = SYS, proc: Path = PROC) -> dict[str, Any]:
    """Return how the kernel runs the processors now: "none" for what it has no file for.

    `throttle_count` counts since boot how often heat slowed a processor; None where the kernel, or the engine, which
    hides the counters in some versions, does not show it.
    """
    cpu = sys / "devices/system/cpu"
    return {
        "governor": _each(cpu, "cpufreq/policy*/scaling_governor"),
        "energy_preference": _each(cpu, "cpufreq/policy*/energy_performance_preference"),
        "boost": _boost(cpu),
        "smt": _each(cpu, "smt/control"),
        "idle_driver": _each(cpu, "cpuidle/current_driver"),
        "power_source": _power_source(sys / "class/power_supply"),
        "clock_source": text(sys / CLOCK_SOURCE),
        "kernel_command_line": text(proc / "cmdline"),
        "throttle_count": _throttle_count(cpu),
    }


def text(path: Path, otherwise: str = UNKNOWN) -> str:
    """Return what a file of the kernel holds."""
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return otherwise


def _each(folder: Path, pattern: str) -> str:
    """Return the distinct texts of all files of a pattern, e.g. "performance, powersave"."""
    return ", ".join(sorted({text(path) for path in folder.glob(pattern)})) or NONE


def _boost(cpu: Path) -> str:
    """Return whether processors may go beyond their nominal frequency: intel_pstate has the negative of it."""
    for path, on in ((cpu / "cpufreq/boost", "1"), (cpu / "intel_pstate/no_turbo", "0")):
        if path.exists():
            return "on" if text(path) == on else "off"
    return NONE


def _power_source(supplies: Path) -> str:
    """Return "mains" or "battery"; "none" for a machine without a battery. A mouse's own is none of the machine's."""
    own = [one for one in supplies.glob("*") if text(one / "scope") != "Device"]
    if not any(text(one / "type") == "Battery" for one in own):
        return NONE
    return "mains" if any(text(one / "online") == "1" for one in own) else "battery"


def _throttle_count(cpu: Path) -> int | None:
    counts = [text(path) for path in cpu.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    return sum(map(int, counts)) if counts and all(one.isdigit() for one in counts) else None
