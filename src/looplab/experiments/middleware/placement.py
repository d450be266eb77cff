"""Which processors each part uses: the middleware from the first one on, everything else from the last one back.

As a program, print the processors of everything else.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from looplab.system.machine_facts import usable_processors

# The paper's machine had 40 processors. Its nodes divided 20 of them.
PUBLISHED, PUBLISHED_CORES, PUBLISHED_NODES = 40, (2, 4, 20, 40), (1, 2, 5, 7, 10)
# The paper's loads, and the one at which the whole machine processed most requests.
PUBLISHED_LOADS, PUBLISHED_OPTIMUM = range(870, 2611, 290), 2320
# The load that one node of 20 cores processes: its share of what 2030 devices send, by the paper's Table 1.
ONE_NODE_OPTIMUM = 2030 * 916_281 / 1_221_302
# Devices, data services and balancer use one quarter of the processors.
OTHERS_SHARE = 4


def others(usable: Sequence[int]) -> list[int]:
    """Return which of the usable processors devices, data services and balancer have."""
    return list(usable[-max(1, len(usable) // OTHERS_SHARE) :])


def of_node(node: int, cores: int, usable: Sequence[int]) -> list[int]:
    """Return which of the usable processors node number `node`, which has so many `cores`, has."""
    return sorted({usable[(node * cores + at) % len(usable)] for at in range(cores)})


def default_cores(processors: int) -> list[int]:
    """Return the published numbers of cores as shares of this machine."""
    return list(dict.fromkeys(max(1, round(cores * processors / PUBLISHED)) for cores in PUBLISHED_CORES))


def default_layouts(processors: int) -> list[str]:
    """Return the published nodes x cores as shares of this machine; without a balancer: 1x20-direct."""
    total = max(2, processors // 2)
    layouts = [f"1x{total}-direct"]
    layouts += [f"{nodes}x{round(total / nodes)}" for nodes in PUBLISHED_NODES if nodes <= total]
    # The paper also had 7 nodes of 3 cores, more than its 20 processors.
    return layouts if total >= PUBLISHED_NODES[-1] else [*layouts, f"{total + 1}x1"]


def default_loads(optimum: float = PUBLISHED_OPTIMUM) -> list[str]:
    """Return the published loads as shares of what a machine answers at most: 37.5% to 112.5%.

    With ONE_NODE_OPTIMUM of what one of several nodes answers: 57.1% to 171%.
    """
    return [f"{100 * devices / optimum:.3g}%" for devices in PUBLISHED_LOADS]


def siblings(folder: Path = Path("/sys/devices/system/cpu")) -> list[list[int]]:
    """Return the processors of each core that has several (SMT), [] if none has or the kernel does not say."""
    cores = set()
    for file in folder.glob("cpu[0-9]*/topology/thread_siblings_list"):
        with contextlib.suppress(OSError, ValueError):
            ends = [list(map(int, part.split("-"))) for part in file.read_text().split(",")]
            cores.add(tuple(one for first, *last in ends for one in range(first, (last or [first])[0] + 1)))
    return sorted(list(core) for core in cores if len(core) > 1)


if __name__ == "__main__":
    print(*others(usable_processors()), sep=",")
