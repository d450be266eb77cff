"""The published machines of type 1, 2 and 3, which `./lab` scales to this computer before Compose starts a run."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path

from looplab.experiments.twin import NAME
from looplab.experiments.twin.parameters import ALL, BROKERS, CENTRAL, FOLDER, LIMIT, TwinParameters
from looplab.system.machine_facts import usable_processors

VCPUS = {1: 1, 2: 2, 3: 4}
GIGABYTES = {1: 2, 2: 4, 3: 8}
# At most this many machines of type 1 run at a time.
DISTRIBUTED_MACHINES = 4


def whole_cpus(kind: int, scale: float) -> int:
    """Return the processors in the set of a machine of type 1, 2 or 3: there is no part of a processor."""
    return max(1, ceil(VCPUS[kind] * scale))


def broker_machines(p: TwinParameters) -> dict[str, int]:
    """Return the type of machine that each broker's container must be, by host name; none in twin-limit."""
    if p.scenario == LIMIT:
        return {}
    kinds: dict[str, int] = {}
    for cell in p.cells:
        kind = (2 if cell.brokers == 2 else 3) if cell.placement == CENTRAL else {NAME: 3, BROKERS: 1}[p.scenario]
        kinds |= {host: kind for host, _port in p.hosts(cell)}
    return kinds


@contextlib.contextmanager
def host_programs(
    _root: Path, settings: Mapping[str, str], _image: Callable[[str], str], _say: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Yield the variables that give each broker's container its processors; nothing runs on the host."""
    yield variables(settings, usable_processors())


def variables(settings: Mapping[str, str], processors: Sequence[int]) -> dict[str, str]:
    """Return what compose.yaml reads of each machine.

    MACHINE_SCALE is 1, as published, or that at which the largest machine has all `processors` of this computer.
    """
    scale = min(1.0, len(processors) / VCPUS[3])
    given = {"MACHINE_SCALE": f"{scale:g}"}
    for kind in (2, 3):
        given[f"TWIN_CPUSET_{kind}"] = _set(processors, 0, whole_cpus(kind, scale))
    # Each machine of type 1 has a set of its own; two of half a processor share one.
    for place in range(DISTRIBUTED_MACHINES):
        given[f"TWIN_CPUSET_BROKER_{place + 1}"] = _set(processors, int(place * scale), whole_cpus(1, scale))
    p = TwinParameters.read(settings, FOLDER)
    # In the paper's first experiment all services are on one machine.
    within = p.confine == ALL and p.scenario == NAME
    given["TWIN_CPUSET_DATABASE"] = given["TWIN_CPUSET_3"] if within else ""
    return given


def _set(processors: Sequence[int], first: int, count: int) -> str:
    return ",".join(str(processors[at % len(processors)]) for at in range(first, first + count))
