"""The figures that the paper prints, as data.

Its text gives the optimal loads of Figures 2 and 3; Table 1 the messages processed in ten minutes at 2030 devices and
the memory at the start, as a share of the machine's. Ten nodes of two cores ran out of memory: they have no figure.
"""

from functools import cache

from looplab.report.printed import printed

# Nodes, cores of each, with a balancer.
Nodes = tuple[int, int, bool]
BEST: Nodes = (5, 4, True)
BEYOND: Nodes = (7, 3, True)
ONE: Nodes = (1, 20, True)
DIRECT: Nodes = (1, 20, False)


@cache
def published(what: str) -> dict[Nodes, float]:
    """Return the printed figures of one kind: `optimal load`, `processed` or `memory share`."""
    return {
        (int(line["nodes"]), int(line["cores"]), line["balancer"] == "yes"): float(line["value"])
        for line in printed(__file__, "middleware.csv")
        if line["what"] == what
    }


def change(before: Nodes, after: Nodes) -> float:
    """Return the published change of the messages processed, as a share."""
    return published("processed")[after] / published("processed")[before] - 1
