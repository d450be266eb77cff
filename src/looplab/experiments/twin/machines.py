"""The published machines of type 1, 2 and 3, scaled to this computer, and the broker that runs on each."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from looplab.experiments.twin import NAME
from looplab.experiments.twin.parameters import BROKERS, CENTRAL, LIMIT, TwinParameters

VCPUS = {1: 1, 2: 2, 3: 4}
GIGABYTES = {1: 2, 2: 4, 3: 8}
MIB = 1 << 20
# So many machines of type 1 may run at a time.
DISTRIBUTED_MACHINES = 4


class Sizes(NamedTuple):
    """What a machine has: processors and bytes."""

    cpus: float
    memory_bytes: int

    @property
    def whole_cpus(self) -> int:
        """The number of processors of its set: there is no part of a processor."""
        return max(1, ceil(self.cpus))


@dataclass(frozen=True)
class Machines:
    """The machines at one scale."""

    scale: float

    def sizes(self, kind: int) -> Sizes:
        """Return what a machine of type 1, 2 or 3 has."""
        return Sizes(round(VCPUS[kind] * self.scale, 4), int(GIGABYTES[kind] * 1024 * self.scale) * MIB)

    def first_cpu(self, place: int) -> int:
        """Return where the set of a machine of type 1 begins; `place` counts them from 0, two halves share one."""
        return int(place * self.sizes(1).cpus)


def fitting_scale(processors: int) -> float:
    """Return the scale at which the largest machine has all `processors`; 1, as published, where there are more."""
    return min(1.0, processors / VCPUS[3])


def broker_machines(p: TwinParameters) -> dict[str, Sizes | None]:
    """Return the machine that each broker's container must be, by host name; None for one without limits."""
    machines_by_host: dict[str, Sizes | None] = {}
    machines = Machines(p.machine_scale)
    for cell in p.cells:
        kind = (2 if cell.brokers == 2 else 3) if cell.placement == CENTRAL else {NAME: 3, BROKERS: 1}.get(p.scenario)
        for host, _port in p.hosts(cell):
            machines_by_host[host] = None if p.scenario == LIMIT or kind is None else machines.sizes(kind)
    return machines_by_host
