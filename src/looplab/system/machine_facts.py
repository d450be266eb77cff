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

from looplab.system.machine_state import machine_state, text

CPU_FILE = Path("/proc/cpuinfo")
BOARD_FILE = Path("/proc/device-tree/model")
# The first file that exists is used: systemd's, D-Bus's, the firmware's (only root reads that).
ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"), Path("/sys/class/dmi/id/product_uuid"))
# Where no other id is seen: `prepare` made it at the lab's first start here.
KEPT_ID = Path("/run/looplab/machine")
NO_ID = "unknown"
UNKNOWN = "unknown (started without ./lab)"
# The variable of the user's own Compose file, and the one that is there to begin with.
OWN, OWN_FILE = "LAB_OWN", "compose/own.yaml"
# Implementer and part numbers of the Main ID Register, of the cores that a lab may meet; as in lscpu's table.
ARM_PARTS: dict[int, tuple[str, dict[int, str]]] = {
    0x41: ("ARM", {
        0xB76: "ARM1176", 0xC07: "Cortex-A7", 0xD03: "Cortex-A53", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57",
        0xD08: "Cortex-A72", 0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1",
        0xD0D: "Cortex-A77", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD44: "Cortex-X1", 0xD49: "Neoverse-N2",
        0xD4F: "Neoverse-V2",
    }),
    0x51: ("Qualcomm", {0x001: "Oryon", 0x804: "Kryo-4xx-Gold", 0x805: "Kryo-4xx-Silver"}),
    # Under macOS a virtual machine sees part 0.
    0x61: ("Apple", {0x000: "Silicon"}),
    0xC0: ("Ampere", {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"}),
}  # fmt: skip


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
        "cpu_model": cpu_model(),
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
    try:
        added = json.loads(handed_in) if handed_in.strip() else {}
    except ValueError:
        added = None
    if isinstance(added, dict):
        facts.update(added)
    else:
        facts["note"] = "LOOPLAB_ENVIRONMENT is no JSON object and was left out"
    return facts


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
    """Return the processor's name, of a single-board computer with the board's: "Raspberry Pi 4 … (ARM Cortex-A72)"."""
    cpuinfo = text(cpu_file, "")
    named, board = cpu_name_from(cpuinfo), text(board_file, "") or _entry(cpuinfo, "Model") or ""
    if board and named:
        return f"{board} ({named})"
    return board or named or platform.processor() or platform.machine() or "unknown"


def cpu_name_from(cpuinfo: str) -> str:
    """Return the name in /proc/cpuinfo: "model name" on x86; of ARM cores, which have none there, that of their part.

    Cores of several kinds are listed: "ARM Cortex-A55 r2p0 + ARM Cortex-A76 r4p0". "" if nothing names it.
    """
    if named := _entry(cpuinfo, "model name"):
        return named
    keys = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
    columns = [re.findall(rf"^{key}\s*:\s*(\S+)", cpuinfo, re.MULTILINE) for key in keys]
    kinds = sorted({tuple(int(word, 0) for word in core) for core in zip(*columns, strict=False)})
    return " + ".join(f"{_part(kind[0], kind[1])} r{kind[2]}p{kind[3]}" for kind in kinds) or _entry(
        cpuinfo, "Hardware"
    )


def cpu_model(cpu_file: Path = CPU_FILE) -> str:
    """Return what the processor itself reports, which neither microcode nor hypervisor words: "GenuineIntel 6-143-8".

    Vendor, family, model and stepping on x86; implementer, part, variant and revision of each kind of ARM core.
    """
    cpuinfo = text(cpu_file, "")
    for keys in (
        ("vendor_id", "cpu family", "model", "stepping"),
        ("CPU implementer", "CPU part", "CPU variant", "CPU revision"),
    ):
        columns = [re.findall(rf"^{key}\s*:\s*(\S+)", cpuinfo, re.MULTILINE) for key in keys]
        if kinds := sorted(set(zip(*columns, strict=False))):
            return " + ".join(f"{kind[0]} {'-'.join(kind[1:])}" for kind in kinds)
    return "unknown"


def _part(implementer: int, part: int) -> str:
    maker, parts = ARM_PARTS.get(implementer, (f"implementer {implementer:#04x}", {}))
    return f"{maker} {parts.get(part, f'part {part:#05x}')}"


def _entry(cpuinfo: str, key: str) -> str:
    match = re.search(rf"^{key}[ \t]*:[ \t]*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def machine_id() -> str:
    """Return a hash of this machine's id: two machines of one model differ; "unknown" if it has none."""
    for path in ID_FILES:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text:
            return hashed(text)
    return NO_ID


def hashed(name: str) -> str:
    """Return twelve digits that identify `name`; "unknown" stays what it is."""
    return name if name == NO_ID else hashlib.sha256(f"looplab {name}".encode()).hexdigest()[:12]
