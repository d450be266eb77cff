"""The machine a run was made on, as far as a container can see it; ./lab adds what only the host knows."""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from looplab.system.identity import hashed

CPU_FILE = Path("/proc/cpuinfo")
BOARD_FILE = Path("/proc/device-tree/model")
CLOCK_SOURCE_FILE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
UNKNOWN = "unknown (started without ./lab)"


def describe(handed_in: str = "") -> dict[str, Any]:
    """Return the facts of a run's machine; `handed_in` is a JSON object with what ./lab knows, or empty."""
    facts: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "clock_source": clock_source(),
        "boot": hashed(boot_id()),
        "machine": UNKNOWN,
        "load_before": list(os.getloadavg()),
        "engine": UNKNOWN,
        "compose": UNKNOWN,
        "images": {},
        "revision": UNKNOWN,
    }
    try:
        added = json.loads(handed_in) if handed_in.strip() else {}
    except ValueError:
        added = None
    if isinstance(added, dict):
        facts.update(added)
    else:
        facts["note"] = "LOOPLAB_ENVIRONMENT is no JSON object and was left out"
    return facts


def boot_id() -> str:
    """Return the kernel's id of this boot of the machine."""
    return _text(Path("/proc/sys/kernel/random/boot_id"))


def cpu_name() -> str:
    """Return the processor's name, of a single-board computer the board's."""
    named = cpu_name_from(_text(CPU_FILE)) or _text(BOARD_FILE, platform.processor() or platform.machine())
    return named or "unknown"


def cpu_name_from(cpuinfo: str) -> str:
    """Return the name in /proc/cpuinfo: "model name" on x86, "Model" on a Raspberry Pi."""
    for key in ("model name", "Model", "Hardware"):
        if found := re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
            return found[1].strip()
    return ""


def clock_source() -> str:
    """Return what the kernel reads the time from."""
    return _text(CLOCK_SOURCE_FILE)


def _text(path: Path, otherwise: str = "unknown") -> str:
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return otherwise
