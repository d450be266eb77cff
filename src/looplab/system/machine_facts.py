"""The machine a run was made on, as far as a container can see it; ./lab adds what only the host knows."""

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

SYS, PROC = Path("/sys"), Path("/proc")
CPU_FILE = PROC / "cpuinfo"
BOARD_FILE = Path("/proc/device-tree/model")
# The first file that exists is used: systemd's, D-Bus's, the firmware's (only root reads that).
ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"), Path("/sys/class/dmi/id/product_uuid"))
# Where no other id is seen: `prepare` made it at the lab's first start here.
KEPT_ID = Path("/run/looplab/machine")
# What the kernel does not say, and what it has no file for.
NO_ID, NO_FILE = "unknown", "none"
UNKNOWN = "unknown (started without ./lab)"
# The variable of the user's own Compose file, and the one that is there to begin with.
OWN, OWN_FILE = "LAB_OWN", "compose/own.yaml"
ARM_FACTS = ("implementer", "part", "variant", "revision")
# Implementers in the Main ID Register of ARM cores; under macOS a virtual machine sees Apple's part 0.
ARM_MAKERS = {"0x41": "ARM", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}

# Two runs that differ in one of these do not repeat each other.
SHARED = (
    "governor", "energy_preference", "boost", "smt", "idle_driver", "power_source", "clock_source",
    "kernel_command_line",
)  # fmt: skip
CLOCK_SOURCE = Path("devices/system/clocksource/clocksource0/current_clocksource")


def usable_processors() -> list[int]:
    """Return the processors that this process may use; a container may have fewer than its machine."""
    # The host of `./lab` may be no Linux.
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


class ClockDistances(NamedTuple):
    """How long the machine has been suspended since boot, and when it booted by the wall clock, in seconds."""

    suspended_s: float
    booted_s: float

    @classmethod
    def now(cls) -> "ClockDistances":
        monotonic, boot, wall = map(
            time.clock_gettime, (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)
        )
        return cls(boot - monotonic, wall - boot)


def describe(handed_in: str = "") -> dict[str, Any]:
    """Return the facts of a run's machine; `handed_in` is a JSON object with what ./lab knows, or empty."""
    facts: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        **machine_state(),
        "boot": hashed(boot_id()),
        "machine": hashed(text(KEPT_ID, NO_ID)).replace(NO_ID, UNKNOWN),
        "load_before": list(os.getloadavg()),
        "engine": UNKNOWN,
        "compose": UNKNOWN,
        "images": {},
        "lab_own": {"file": os.environ.get(OWN) or OWN_FILE},
        "revision": UNKNOWN,
        "code": UNKNOWN,
    }
    return {**facts, **json.loads(handed_in or "{}")}


def own_file(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the user's own Compose file of a run (run.json) as a factor: ("LAB_OWN=my/stress.yaml@30f4d59a",).

    Behind the name is a digest of what it changes, which ./lab alone knows. () if it changes nothing.
    """
    own = run.get("environment", {}).get("lab_own", {})
    file, changes = own.get("file", OWN_FILE), own.get("changes")
    if changes == "" or (changes is None and file == OWN_FILE):
        return ()
    return (f"{OWN}={file}" + (f"@{changes}" if changes else ""),)


def boot_id() -> str:
    """Return the kernel's id of this boot of the machine."""
    return text(Path("/proc/sys/kernel/random/boot_id"))


def cpu_name(cpu_file: Path = CPU_FILE, board_file: Path = BOARD_FILE) -> str:
    """Return the processor's name, of a single-board computer with the board's: "Raspberry Pi 4 … (ARM 0xd08-0x0-3)".

    The kernel names no ARM core: there it is the maker with part, variant and revision of each kind.
    """
    cpuinfo = text(cpu_file, "")
    facts = (re.findall(rf"^CPU {key}\s*:\s*(\S+)", cpuinfo, re.MULTILINE) for key in ARM_FACTS)
    cores = sorted(set(zip(*facts, strict=False)))
    arm = " + ".join(f"{ARM_MAKERS.get(maker, maker)} {'-'.join(kind)}" for maker, *kind in cores)
    named = _entry(cpuinfo, "model name") or arm or NO_ID
    board = text(board_file, "") or _entry(cpuinfo, "Model")
    return f"{board} ({named})" if board else named


def _entry(cpuinfo: str, key: str) -> str:
    match = re.search(rf"^{key}[ \t]*:[ \t]*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def machine_id() -> str:
    """Return a hash of this machine's id: two machines of one model differ; "unknown" if it has none."""
    for path in ID_FILES:
        if found := text(path, ""):
            return hashed(found)
    return NO_ID


def hashed(name: str) -> str:
    """Return twelve digits that identify `name`; "unknown" stays what it is."""
    return name if name == NO_ID else hashlib.sha256(f"looplab {name}".encode()).hexdigest()[:12]


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


def text(path: Path, otherwise: str = NO_ID) -> str:
    """Return what a file of the kernel holds."""
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return otherwise


def _each(folder: Path, pattern: str) -> str:
    """Return the distinct texts of all files of a pattern, e.g. "performance, powersave"."""
    return ", ".join(sorted({text(path) for path in folder.glob(pattern)})) or NO_FILE


def _boost(cpu: Path) -> str:
    """Return whether processors may go beyond their nominal frequency: intel_pstate has the negative of it."""
    for path, on in ((cpu / "cpufreq/boost", "1"), (cpu / "intel_pstate/no_turbo", "0")):
        if path.exists():
            return "on" if text(path) == on else "off"
    return NO_FILE


def _power_source(supplies: Path) -> str:
    """Return "mains" or "battery"; "none" for a machine without a battery. A mouse's own is none of the machine's."""
    own = [one for one in supplies.glob("*") if text(one / "scope") != "Device"]
    if not any(text(one / "type") == "Battery" for one in own):
        return NO_FILE
    return "mains" if any(text(one / "online") == "1" for one in own) else "battery"


def _throttle_count(cpu: Path) -> int | None:
    counts = [text(path) for path in cpu.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    return sum(map(int, counts)) if counts and all(one.isdigit() for one in counts) else None
