"""Judge the facts of a machine: each check has a finding, a state and a remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.lab.docker.engine import (
    COMPOSE_REMEDY,
    Engine,
    compose_message,
    engine_message,
    engine_remedy,
    show_version,
)
from looplab.lab.docker.images import GRAFANA_REPOSITORY
from looplab.lab.image_names import repository_of
from looplab.lab.machine.facts import HostFacts, Machine, PortUse, files_with_crlf
from looplab.lab.machine.limits import OWN_GROUP, RTPRIO_CONTROLLER, Limits

OK, WARN, FAIL = "ok", "warn", "fail"

GIB = 2**30
MIB = 2**20
DISK_NEEDED_BYTES = 100 * MIB
DISK_ADVISED_BYTES = GIB
MEMORY_ADVISED_BYTES = 2 * GIB
# Reading one of these takes a microsecond or more, and they may step.
SLOW_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"}
# Files in which a carriage return would become part of a value or of a command.
CRLF_SENSITIVE = (
    "lab",
    ".env",
    "compose/scenarios/**/*.env",
    "compose/mosquitto/**/*.conf",
    "compose/mosquitto/start",
    "images/*/*.sh",
    "scripts/*",
    ".ci/run",
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


def check_machine(root: Path, machine: Machine, images: Mapping[str, bool] | None = None) -> list[Check]:
    """Return all checks, the host's first; `images` holds for each upstream image whether it is here."""
    checks = [*_check_host(machine.host), _check_line_ends(root), *_check_engine(machine.engine)]
    checks += [_check_port(use) for use in machine.ports]
    if machine.engine.serves:
        checks += _check_limits(machine.limits, machine.engine)
        checks += _check_images(machine, images or {})
    return [*checks, _check_serial(machine.host)]


def _warn_unless(good: bool, name: str, found: str, remedy: str, why: str = "") -> Check:
    return Check(name, found) if good else Check(name, found, WARN, remedy, why)


def _check_host(host: HostFacts) -> list[Check]:
    return [
        Check("System", f"{host.release}, kernel {host.kernel}, {host.architecture}"),
        _warn_unless(
            host.cores >= 2,
            "Processor",
            f"{host.cores} x {host.cpu}",
            "Give the machine a second core if it is a virtual one.",
            "On one core controller, broker and robot take turns.",
        ),
        _warn_unless(
            host.memory_bytes >= MEMORY_ADVISED_BYTES,
            "Memory",
            f"{host.memory_bytes / GIB:.1f} GiB",
            "Lower the --vm options of the stress scenarios.",
            "They take 640 MiB.",
        ),
        _warn_unless(
            host.clock_source not in SLOW_CLOCKS,
            "Clock source",
            host.clock_source,
            "Boot with clocksource=tsc if the processor has a constant one.",
            "Each reading of this clock is slow, and a message is stamped four times.",
        ),
        _check_disk(host),
    ]


def _check_disk(host: HostFacts) -> Check:
    found = f"{host.disk_free_bytes / GIB:.1f} GiB free for results"
    if not host.results_writable:
        return Check("Disk", "results/ is not writable", FAIL, "Run sudo chown -R $USER results.")
    if host.disk_free_bytes < DISK_NEEDED_BYTES:
        return Check("Disk", found, FAIL, "Free some space, or move old runs out of results/.")
    enough = host.disk_free_bytes >= DISK_ADVISED_BYTES
    return _warn_unless(enough, "Disk", found, "Free some space: images need about 1 GiB.")


def _check_line_ends(root: Path) -> Check:
    spoilt = files_with_crlf(root, CRLF_SENSITIVE)
    if not spoilt:
        return Check("Line ends", "Unix")
    more = f" and {len(spoilt) - 1} more" if len(spoilt) > 1 else ""
    remedy = "Run git config core.autocrlf false, then git checkout-index --force --all."
    return Check("Line ends", f"Windows (CRLF) in {spoilt[0]}{more}", FAIL, remedy)


def _check_engine(engine: Engine) -> list[Check]:
    if not engine.serves:
        checks = [Check("Docker engine", engine_message(engine), FAIL, engine_remedy(engine))]
    else:
        rootless = ", rootless" if engine.rootless else ""
        found = f"{engine.server_version}, client {engine.client_version or '?'}"
        checks = [Check("Docker engine", f"{found}, cgroup v{engine.cgroup_version}{rootless}")]
    if engine.compose_serves and engine.compose is not None:
        return [*checks, Check("Docker Compose", show_version(engine.compose))]
    return [*checks, Check("Docker Compose", compose_message(engine), FAIL, COMPOSE_REMEDY)]


def _check_port(use: PortUse) -> Check:
    name = f"Port {use.port}"
    if not use.taken:
        return Check(name, "free")
    if use.owner.endswith("of this lab"):
        return Check(name, f"used by {use.owner}", WARN, "Run ./lab down unless a run is going on.")
    return Check(name, f"used by {use.owner}", FAIL, f"Stop that, or set {use.variable} in .env to another port.")


def _check_limits(limits: Limits, engine: Engine) -> list[Check]:
    if not limits.known:
        found = f"not known yet: {limits.unknown_because}"
        return [Check("Real-time priority", found, WARN, "Run ./lab setup.")]
    return [_check_rtprio(limits), _check_fifo(limits, engine), _check_sockets(limits), _check_group(limits)]


def _check_rtprio(limits: Limits) -> Check:
    granted = f"only {limits.rtprio_max} is granted" if limits.rtprio_max else "refused by the engine"
    good = limits.rtprio_max >= RTPRIO_CONTROLLER
    return _warn_unless(
        good,
        "rtprio limit",
        f"up to {limits.rtprio_max} is granted" if good else f"{granted} ({limits.rtprio_refusal})",
        "Use a root engine with CAP_SYS_RESOURCE (not nested, not rootless) to run as published.",
        "The published runs only permit priority (rtprio 90, 99); a run here records that it was not applied.",
    )


def _check_fifo(limits: Limits, engine: Engine) -> Check:
    name = "SCHED_FIFO"
    if limits.fifo and limits.rt_group_sched and limits.rt_budget_us is not None:
        found = f"works, {limits.rt_budget_us / 10_000:.0f} % of each core may be real-time"
        return Check(name, found, why="This kernel rations real-time CPU by control group (RT_GROUP_SCHED).")
    if limits.fifo:
        return Check(name, "works", why="A real-time thread runs before every ordinary one, also under stress.")
    why = "Runs with applied priority (fidelity corrected) are marked invalid: it has no effect."
    return Check(name, f"does not work in containers ({limits.fifo_refusal})", WARN, _fifo_remedy(limits, engine), why)


def _fifo_remedy(limits: Limits, engine: Engine) -> str:
    if limits.rt_group_sched and limits.rt_budget_us == 0:
        return "Run sudo ./lab setup."
    if engine.rootless:
        return "Use an engine that runs as root: a rootless one cannot grant real-time priority."
    if engine.cgroup_version == 2:
        return "If the kernel has RT_GROUP_SCHED, boot it with rt_group_sched=0."
    return "See docs/no-registry.md, real-time priority."


def _check_sockets(limits: Limits) -> Check:
    readable = "TCP_NODELAY of running programs can be read"
    return _warn_unless(
        limits.pidfd_getfd,
        "Socket options",
        readable if limits.pidfd_getfd else f"cannot be read ({limits.pidfd_refusal})",
        "Needs Linux 5.6 and an engine whose seccomp profile allows pidfd_getfd with SYS_PTRACE.",
        "TCP_NODELAY of broker and clients stays unverified, and the run records that.",
    )


def _check_group(limits: Limits) -> Check:
    name = "Control group"
    if not limits.own_group:
        return Check(
            name,
            f"none ({limits.own_group_refusal})",
            WARN,
            "Start dockerd without --cpu-rt-runtime: its budget leaves none for another group. ./lab gives the budget.",
            "Exporter, Prometheus and Grafana share the measured parts' control group, and disturb them under load.",
        )
    return _warn_unless(
        bool(limits.watch_group),
        name,
        f"{OWN_GROUP} keeps what is not measured apart",
        "None on this engine: it lets no container stand beside its own group.",
        "Exporter and Prometheus are in a group of the usual weight: under stress a scrape delays a message by ms.",
    )


def _check_images(machine: Machine, images: Mapping[str, bool]) -> list[Check]:
    registry = machine.registry
    checks = []
    if images:
        missing = [reference for reference, here in images.items() if not here]
        remedy = "Run ./lab setup."
        silent = registry is not None and not registry.answers
        if silent and all(repository_of(reference) == GRAFANA_REPOSITORY for reference in missing):
            remedy = "None here: it has no stand-in, and the lab runs without it (GRAFANA=off)."
        found = f"missing: {', '.join(missing)}" if missing else "all here"
        checks.append(_warn_unless(not missing, "Upstream images", found, remedy))
    if registry is not None:
        found = "answers" if registry.answers else f"does not answer ({registry.detail})"
        remedy = "None needed: ./lab setup builds stand-ins from Debian packages. Without a network: ./lab load FILE."
        checks.append(_warn_unless(registry.answers, "Image registry", found, remedy))
    return checks


def _check_serial(host: HostFacts) -> Check:
    name = "Serial devices"
    if not host.serial:
        return Check(name, "none (a real robot is optional)")
    found = ", ".join(device.path for device in host.serial)
    return Check(name, found, why=f"For ROBOT=usb; group {host.serial[0].group_id} may use it.")
