"""The container that a process is in, as its own /etc/hostname and control group show it (CAP_SYS_PTRACE)."""

import contextlib
from pathlib import Path
from typing import Any

_UNLIMITED = ("max", "-1")


def container_facts(pid: int, proc: Path = Path("/proc")) -> dict[str, Any]:
    """Return host name, quota in processors (None: no quota), CPU time of the whole group in ns, how often and for how
    long (ns) the quota stopped it; None where the kernel or the engine does not show it."""
    root = proc / str(pid) / "root"
    group = root / "sys/fs/cgroup"
    found: dict[str, Any] = {"hostname": _text(root / "etc/hostname")}
    if (group / "cpu.max").exists() or (group / "cpu.stat").exists():
        counted = _table(group / "cpu.stat")
        quota, _, period = _text(group / "cpu.max").partition(" ")
        used_ns, stopped_ns = _scaled(counted, "usage_usec", 1000), _scaled(counted, "throttled_usec", 1000)
    else:
        counted = _table(group / "cpu/cpu.stat")
        quota, period = _text(group / "cpu/cpu.cfs_quota_us"), _text(group / "cpu/cpu.cfs_period_us")
        used = _text(group / "cpuacct/cpuacct.usage")
        used_ns, stopped_ns = int(used) if used else None, _scaled(counted, "throttled_time", 1)
    limit = None if quota in ("", *_UNLIMITED) or not period else round(int(quota) / int(period), 4)
    return {
        **found,
        "cpu_limit": limit,
        "cpu_ns": used_ns,
        "throttled": counted.get("nr_throttled"),
        "throttled_ns": stopped_ns,
    }


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def _table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _scaled(table: dict[str, int], key: str, factor: int) -> int | None:
    return table[key] * factor if key in table else None
