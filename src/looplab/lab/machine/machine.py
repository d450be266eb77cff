"""All facts of this machine in one place, and the Compose variables that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.lab.docker.engine import Engine, find_engine
from looplab.lab.docker.image_names import BASE_IMAGE
from looplab.lab.docker.images import Registry, ask_registry
from looplab.lab.machine.facts import HostFacts, PortUse, host_facts, port_uses
from looplab.lab.machine.limits import (
    RT_BUDGET_US,
    RT_RUNTIME_US,
    RTPRIO_BROKER,
    RTPRIO_CONTROLLER,
    Limits,
    probe_limits,
)
from looplab.lab.programs import call
from looplab.lab.settings import PROJECT, project_name

LIMITS_CACHE = Path(".cache/limits.json")


@dataclass(frozen=True)
class Machine:
    """`registry` is None where nobody asked (it costs up to 15 s)."""

    engine: Engine
    host: HostFacts
    limits: Limits
    ports: tuple[PortUse, ...] = ()
    registry: Registry | None = None


def inspect_machine(
    root: Path,
    ports: Iterable[tuple[str, int]] = (),
    *,
    ask_for: str | None = None,
    probe_images: Sequence[str] = (BASE_IMAGE,),
) -> Machine:
    """Look at everything; `ask_for` is an image reference whose registry is asked whether it answers."""
    engine = find_engine()
    return Machine(
        engine=engine,
        host=host_facts(root / "results"),
        limits=probe_limits(engine, probe_images, cache=root / LIMITS_CACHE),
        ports=port_uses(ports, _published_ports(engine, project_name(root))) if engine.local else (),
        registry=ask_registry(ask_for) if ask_for and engine.serves else None,
    )


def _published_ports(engine: Engine, project: str) -> dict[int, str]:
    """Which container holds which port: the engine's proxy process would say nothing to a person."""
    if not engine.serves:
        return {}
    columns = '{{.Label "com.docker.compose.project"}}\t{{.Names}}\t{{.Ports}}'
    listing = call(["docker", "ps", "--format", columns])
    return read_published_ports(listing.stdout, project) if listing.good else {}


def read_published_ports(listing: str, lab: str = PROJECT) -> dict[int, str]:
    """Lines of project, container and "127.0.0.1:1883->1883/tcp, ..."; also ranges, also IPv6."""
    owners: dict[int, str] = {}
    for line in listing.splitlines():
        project, name, published = [*line.split("\t"), "", ""][:3]
        owner = f"container {name} of this lab" if project == lab else f"container {name}"
        for mapping in published.split(", "):
            outside, arrow, _ = mapping.partition("->")
            first, _, last = outside.rpartition(":")[2].partition("-")
            if arrow and first.isdigit():
                owners.update(dict.fromkeys(range(int(first), int(last or first) + 1), owner))
    return owners


def machine_variables(machine: Machine, images: Mapping[str, str] | None = None) -> dict[str, str]:
    """Compose variables that follow from the facts; `images` adds those that ensure_images found.

    What the engine grants keeps the value of .env, which a person may have chosen: only refusals are said.
    """
    granted = machine.limits.rtprio_max
    published = {"LAB_RTPRIO_BROKER": RTPRIO_BROKER, "LAB_RTPRIO_CONTROLLER": RTPRIO_CONTROLLER}
    return {
        **{name: "0" for name, wanted in published.items() if granted < wanted},
        **{name: str(runtime_us) for name, runtime_us in rt_runtimes_us(machine.limits).items()},
        **(images or {}),
    }


def rt_runtimes_us(limits: Limits) -> dict[str, int]:
    """0 leaves cpu_rt_runtime unset: right where the kernel does not ration real-time CPU time."""
    budget_us = RT_BUDGET_US if limits.rt_budget_us is None else limits.rt_budget_us
    if not (limits.rt_group_sched and limits.fifo and budget_us > 0):
        return dict.fromkeys(RT_RUNTIME_US, 0)
    if budget_us >= RT_BUDGET_US:
        return dict(RT_RUNTIME_US)
    # A smaller budget is shared out in the same proportions, rounded down so that the sum fits.
    return {name: wanted_us * budget_us // RT_BUDGET_US for name, wanted_us in RT_RUNTIME_US.items()}
