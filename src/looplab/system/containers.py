"""The container that a process is in, as its own /etc/hostname and control group show it (CAP_SYS_PTRACE)."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_UNLIMITED = ("max", "-1")
# Version 1 of control groups writes "no limit" as the largest multiple of a page.
_NO_MEMORY_LIMIT = 1 << 60


def container_facts(pid: int, proc: Path = Path("/proc")) -> dict[str, Any]:
    """Return host name, quota in processors and memory limit in bytes (None: no limit), CPU time of the whole group in
    ns; None where kernel or engine does not show it."""
    root = proc / str(pid) / "root"
    group = root / "sys/fs/cgroup"
    facts: dict[str, Any] = {"hostname": _text(root / "etc/hostname")}
    if (group / "cpu.max").exists() or (group / "cpu.stat").exists():
        quota, _, period = _text(group / "cpu.max").partition(" ")
        used_us = _table(group / "cpu.stat").get("usage_usec")
        used_ns = None if used_us is None else used_us * 1000
        memory = _text(group / "memory.max")
    else:
        quota, period = _text(group / "cpu/cpu.cfs_quota_us"), _text(group / "cpu/cpu.cfs_period_us")
        used = _text(group / "cpuacct/cpuacct.usage")
        used_ns = int(used) if used else None
        memory = _text(group / "memory/memory.limit_in_bytes")
    limit = None if quota in ("", *_UNLIMITED) or not period else round(int(quota) / int(period), 4)
    return {
        **facts,
        "cpu_limit": limit,
        "memory_limit": int(memory) if memory.isdigit() and int(memory) < _NO_MEMORY_LIMIT else None,
        "cpu_ns": used_ns,
    }


def at_address(address: str, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of the processes in the container with this address, as its own /etc/hosts has it."""
    here = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    return sorted(pid for pid in here if address in _text(proc / str(pid) / "root/etc/hosts").split())


def files_of(pid: int, patterns: Iterable[str], proc: Path = Path("/proc")) -> list[str]:
    """Return the files of the container of `pid` that match `patterns`, each relative to its root (CAP_SYS_PTRACE)."""
    root = proc / str(pid) / "root"
    with contextlib.suppress(OSError):
        return sorted(str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern))
    return []


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def _table(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
