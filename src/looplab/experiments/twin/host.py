"""The published machines of type 1, 2 and 3, which `./lab` scales to this computer before Compose starts a run."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

from looplab.errors import UsageError
from looplab.experiments.twin import NAME
from looplab.experiments.twin.parameters import (
    ALL,
    BROKERS,
    CENTRAL,
    CONFINES,
    FOLDER,
    LIMIT,
    USUAL_CONFINE,
    TwinParameters,
)
from looplab.spec.reader import Reader

VCPUS = {1: 1, 2: 2, 3: 4}
GIGABYTES = {1: 2, 2: 4, 3: 8}
MIB = 1 << 20
# At most this many machines of type 1 run at a time.
DISTRIBUTED_MACHINES = 4


class Sizes(NamedTuple):
    """What a machine has: processors and bytes."""

    cpus: float
    memory_bytes: int

    @property
    def whole_cpus(self) -> int:
        """The number of processors of its set: there is no part of a processor."""
        return max(1, ceil(self.cpus))


def machine(kind: int, scale: float) -> Sizes:
    """Return what a machine of type 1, 2 or 3 has at a scale: its memory is as published at each."""
    return Sizes(round(VCPUS[kind] * scale, 4), GIGABYTES[kind] * 1024 * MIB)


def fitting_scale(processors: int) -> float:
    """Return the scale at which the largest machine has all `processors`; 1, as published, where there are more."""
    return min(1.0, processors / VCPUS[3])


def broker_machines(p: TwinParameters) -> dict[str, Sizes | None]:
    """Return the machine that each broker's container must be, by host name; None for one without limits."""
    machines_by_host: dict[str, Sizes | None] = {}
    for cell in p.cells:
        kind = (2 if cell.brokers == 2 else 3) if cell.placement == CENTRAL else {NAME: 3, BROKERS: 1}.get(p.scenario)
        for host, _port in p.hosts(cell):
            machines_by_host[host] = None if p.scenario == LIMIT or kind is None else machine(kind, p.machine_scale)
    return machines_by_host


@contextlib.contextmanager
def host_programs(
    _root: Path, settings: Mapping[str, str], _image: Callable[[str], str], _say: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Yield the variables that give each broker's container its processors; nothing runs on the host."""
    yield variables(settings, sorted(os.sched_getaffinity(0)))


def variables(settings: Mapping[str, str], processors: Sequence[int]) -> dict[str, str]:
    """Return MACHINE_SCALE (if it is empty, what fits) and what compose.yaml reads of each machine.

    Raises LabError (exit code 2) if a machine would have more than this computer's `processors`.
    """
    get = Reader(settings, FOLDER)
    scale = get.number("MACHINE_SCALE", fitting_scale(len(processors)), 0.01, 100)
    if settings.get("SCENARIO") != LIMIT and machine(3, scale).cpus > len(processors):
        raise UsageError(
            f"MACHINE_SCALE={scale:g}: a machine of type 3 would have {VCPUS[3] * scale:g} processors, and this "
            f"computer has {len(processors)}.",
            f"Set MACHINE_SCALE={fitting_scale(len(processors)):g}, or leave it empty, in .env.",
        )
    given = {"MACHINE_SCALE": f"{scale:g}"}
    for kind in (2, 3):
        given[f"TWIN_CPUSET_{kind}"] = _set(processors, 0, machine(kind, scale).whole_cpus)
    # Each machine of type 1 has a set of its own; two of half a processor share one.
    own = machine(1, scale)
    for place in range(DISTRIBUTED_MACHINES):
        given[f"TWIN_CPUSET_BROKER_{place + 1}"] = _set(processors, int(place * own.cpus), own.whole_cpus)
    confine = get.choice("CONFINE", get.default(USUAL_CONFINE), CONFINES)
    # In the paper's first experiment all services are on one machine.
    within = confine == ALL and settings.get("SCENARIO") == NAME
    given["TWIN_CPUSET_DATABASE"] = given["TWIN_CPUSET_3"] if within else ""
    return given


def _set(processors: Sequence[int], first: int, count: int) -> str:
    return ",".join(str(processors[at % len(processors)]) for at in range(first, first + count))
