"""Judge a machine and its engine: each check has a finding, a state and a remedy."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.lab.docker.engine import COMPOSE_REMEDY, Engine, parse_version, show_version
from looplab.lab.machine.limits import FIFO, GROUP, MOST_RTPRIO, OWN_GROUP, RTPRIO, Limits
from looplab.lab.machine.network import OF_THIS_LAB
from looplab.system.machine_facts import cpu_name, usable_processors
from looplab.system.remedies import NO_MEMORY_LIMITS

OK, WARN, FAIL = "ok", "warn", "fail"

GIB = 2**30
MIB = 2**20
DISK_NEEDED_BYTES = 100 * MIB
DISK_ADVISED_BYTES = GIB
MEMORY_ADVISED_BYTES = 2 * GIB
# Older engines forward what a neighbour sends to 127.0.0.1 of this machine, or to a container.
LOOPBACK_SAFE = (28, 0, 0)
# The first one covers the address where BROKER_PATH=port publishes the broker, too. The second one stops packets to a
# container's own address; `eth0` stands for the card.
LOOPBACK_RULES = (
    "iptables -t raw -I PREROUTING -i eth0 -d 127.0.0.0/8,172.17.0.0/16 -j DROP",
    "iptables -I DOCKER-USER -i eth0 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
)


@dataclass(frozen=True)
class Check:
    """One line of ./lab doctor; `why` explains what the finding means for the measurement."""

    name: str
    found: str
    state: str = OK
    remedy: str = ""
    why: str = ""


def run_is_possible(checks: Sequence[Check]) -> bool:
    return all(check.state != FAIL for check in checks)


def _check(name: str, found: str, good: bool, remedy: str, why: str = "", state: str = WARN) -> Check:
    return Check(name, found) if good else Check(name, found, state, remedy, why)


def check_host(results: Path) -> Iterator[Check]:
    """Judge this machine as its kernel describes it; `results` is the folder that needs disk space."""
    yield Check("System", f"{_release()}, kernel {platform.release()}, {platform.machine()}")
    cores = len(usable_processors())
    yield _check(
        "Processor",
        f"{cores} x {cpu_name()}",
        cores >= 2,
        "Give the machine a second core if it is a virtual one.",
        "On one core controller, broker and robot take turns.",
    )
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield _check(
        "Memory",
        f"{memory_bytes / GIB:.1f} GiB",
        memory_bytes >= MEMORY_ADVISED_BYTES,
        "Lower the --vm options of the stress scenarios.",
        "They take 640 MiB.",
    )
    folder = next(place for place in (results.absolute(), *results.absolute().parents) if place.exists())
    free_bytes = shutil.disk_usage(folder).free
    free = f"{free_bytes / GIB:.1f} GiB free for results"
    if not os.access(folder, os.W_OK):
        yield Check("Disk", "results/ is not writable", FAIL, "Run sudo chown -R $USER results.")
    elif free_bytes < DISK_NEEDED_BYTES:
        yield Check("Disk", free, FAIL, "Free some space, or move old runs out of results/.")
    else:
        enough = free_bytes >= DISK_ADVISED_BYTES
        yield _check("Disk", free, enough, "Free some space: images need about 1 GiB.")


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform(terse=True)


def check_engine(engine: Engine) -> Iterator[Check]:
    rootless = ", rootless" if engine.rootless else ""
    versions = f"{engine.server_version}, cgroup v{engine.cgroup_version}{rootless}"
    yield _check(
        "Docker engine", versions if engine.serves else engine.message, engine.serves, engine.remedy, state=FAIL
    )
    if engine.serves and not engine.memory_limits:
        why = "Runs whose parts have a machine of their own are marked invalid."
        yield Check("Memory limits", "ignored by this kernel", WARN, NO_MEMORY_LIMITS.do, why)
    # A rootless engine has no packet rules: a program opens its ports.
    if engine.serves and not engine.in_a_machine_of_its_own and not engine.rootless:
        safe = (parse_version(engine.server_version) or LOOPBACK_SAFE) >= LOOPBACK_SAFE
        yield _check(
            "Loopback",
            f"ports on 127.0.0.1 {'stay on' if safe else 'can be reached from outside'} this machine",
            safe,
            f"Update Docker to 28, or after each boot, for each network card: sudo {'; sudo '.join(LOOPBACK_RULES)}",
            "A machine on the same segment reaches broker and dashboards, which ask for no password.",
        )
    serves, version = engine.compose_serves, show_version(engine.compose)
    yield _check("Docker Compose", version if serves else engine.compose_message, serves, COMPOSE_REMEDY, state=FAIL)


def check_ports(ports: Mapping[str, int], owners: Mapping[str, str]) -> Iterator[Check]:
    for variable, owner in owners.items():
        name = f"Port {ports[variable]}"
        if not owner:
            yield Check(name, "free")
        elif owner.endswith(OF_THIS_LAB):
            yield Check(name, f"used by {owner}", WARN, "Run ./lab down unless a run is going on.")
        else:
            yield Check(name, f"used by {owner}", FAIL, f"Stop that, or set {variable} in .env to another port.")


def check_limits(limits: Limits) -> Iterator[Check]:
    if limits.unknown:
        yield Check("Real-time priority", f"not known yet: {limits.unknown}", WARN, "Run ./lab setup.")
        return
    why = limits.refused.get(RTPRIO, "")
    instead = "broker and controller hold SYS_NICE instead (LAB_PRIORITY_UID=0), and each run records it"
    yield _check(
        "rtprio limit",
        f"refused by the engine ({why})" if why else f"up to {MOST_RTPRIO} is granted",
        not why,
        "Use a root engine with CAP_SYS_RESOURCE (not nested, not rootless) to run as published.",
        "The published limits are rtprio 90 and 99; "
        + (instead if limits.grants(FIFO) else "scenarios 4, 5, 6 and 8 are marked invalid: no part may use priority")
        + ".",
    )
    yield _check_fifo(limits)
    why = limits.refused.get(GROUP, "") or ("" if limits.watch_group else "no container stands beside the engine's own")
    yield _check(
        "Control group",
        f"none ({why})" if why else f"{OWN_GROUP} keeps what is not measured apart",
        not why,
        "Start dockerd without --cpu-rt-runtime, if it has that: its budget leaves none for another group.",
        "Exporter, Prometheus and Grafana disturb the measured parts under load.",
    )


def _check_fifo(limits: Limits) -> Check:
    why = limits.refused.get(FIFO, "")
    if not why and limits.rt_group_sched and limits.rt_budget_us is not None:
        budget = f"works, {limits.rt_budget_us / 10_000:.0f} % of each core may be real-time"
        return Check("SCHED_FIFO", budget, why="This kernel rations real-time CPU by control group (RT_GROUP_SCHED).")
    if not why:
        why = "A real-time thread runs before every ordinary one, also under stress."
        return Check("SCHED_FIFO", "works", why=why)
    remedy = "Run sudo ./lab setup on an engine that runs as root; else see docs/platforms.md, real-time priority."
    effect = "Runs with applied priority (fidelity corrected) are marked invalid: it has no effect."
    return Check("SCHED_FIFO", f"does not work in containers ({why})", WARN, remedy, effect)
