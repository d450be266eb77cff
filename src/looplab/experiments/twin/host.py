"""What `./lab` does on the host before Compose starts a run: scale the published machines to this computer."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from looplab.errors import UsageError
from looplab.experiments.twin.machines import DISTRIBUTED_MACHINES, VCPUS, Machines, fitting_scale
from looplab.experiments.twin.parameters import CONFINEMENTS, CPUSET, FOLDER, LIMIT, QUOTA
from looplab.spec.reader import Reader


@contextlib.contextmanager
def beside(
    _root: Path, settings: Mapping[str, str], _image: Callable[[str], str], _say: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Yield the variables that give each broker's container its processors and memory; nothing runs on the host."""
    yield variables(settings, sorted(os.sched_getaffinity(0)))


def variables(settings: Mapping[str, str], processors: Sequence[int]) -> dict[str, str]:
    """Return MACHINE_SCALE (if it is empty, what fits) and what compose.yaml reads of each machine.

    Raises LabError (exit code 2) if a machine would have more than this computer's `processors`.
    """
    get = Reader(settings, FOLDER)
    scale = get.number("MACHINE_SCALE", fitting_scale(len(processors)), 0.01, 100)
    machines = Machines(scale)
    if settings.get("SCENARIO") != LIMIT and machines.sizes(3).cpus > len(processors):
        raise UsageError(
            f"MACHINE_SCALE={scale:g}: a machine of type 3 would have {VCPUS[3] * scale:g} processors, and this "
            f"computer has {len(processors)}.",
            f"Set MACHINE_SCALE={fitting_scale(len(processors)):g}, or leave it empty, in .env.",
        )
    sets = get.choice("CONFINEMENT", QUOTA, CONFINEMENTS) == CPUSET
    given = {"MACHINE_SCALE": f"{scale:g}"}
    for kind in VCPUS:
        sizes = machines.sizes(kind)
        given[f"TWIN_MEMORY_{kind}"] = str(sizes.memory_bytes)
        # 0: no quota.
        given[f"TWIN_CPUS_{kind}"] = "0" if sets else f"{sizes.cpus:g}"
        given[f"TWIN_CPUSET_{kind}"] = _set(processors, 0, sizes.whole_cpus) if sets else ""
    for place in range(DISTRIBUTED_MACHINES):
        one = _set(processors, machines.first_cpu(place), machines.sizes(1).whole_cpus)
        given[f"TWIN_CPUSET_BROKER_{place + 1}"] = one if sets else ""
    return given


def _set(processors: Sequence[int], first: int, count: int) -> str:
    return ",".join(str(processors[at % len(processors)]) for at in range(first, first + count))
