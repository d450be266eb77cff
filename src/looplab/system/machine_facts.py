"""The machine a run was made on, as far as a container can see it; ./lab adds what only the host knows."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

UNKNOWN = "unknown (started without ./lab)"


def describe(handed_in: str = "") -> dict[str, Any]:
    """Return the facts of a run's machine; `handed_in` is a JSON object with what ./lab knows, or empty."""
    facts: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "clock_source": _text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
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


def _cpu() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"
