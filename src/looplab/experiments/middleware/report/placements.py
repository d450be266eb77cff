"""The placements of a run: their loads, the load at which each processes most, and what the paper prints of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from looplab.experiments.middleware import Placement
from looplab.experiments.middleware.report import PROCESSED, MeasuredLoad, Unit
from looplab.report.samples import MeasuredRuns

# The best placement of the paper's tables.
BEST = Placement(True, True, 5, 4)
# Bare metal and container, on the same cores under the same load.
Pair = tuple[MeasuredLoad, MeasuredLoad]


def load_cells(run: MeasuredRuns) -> list[MeasuredLoad]:
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredLoad)]


def places(run: MeasuredRuns) -> dict[Placement, list[MeasuredLoad]]:
    """Return the valid cells that did not run out of memory by placement, in the order of cores and of load."""
    by_place: dict[Placement, list[MeasuredLoad]] = {}
    for cell in sorted(load_cells(run), key=lambda cell: (cell.place, cell.devices)):
        if cell.valid and not cell.starved and cell.every:
            by_place.setdefault(cell.place, []).append(cell)
    return by_place


def container_pairs(run: MeasuredRuns) -> list[Pair]:
    """Return (bare metal, container) of each number of cores and load that was measured on both."""
    by_key = {cell.key: cell for cells in places(run).values() for cell in cells}
    pairs = [(cell, by_key.get((True, *key[1:]))) for key, cell in by_key.items() if not cell.container]
    return [(bare, boxed) for bare, boxed in pairs if boxed is not None]


@dataclass(frozen=True)
class Optimum:
    """The optimal load of a placement, what it processes there in a second, and the best load of each round."""

    place: Placement
    load: int
    processed: float
    by_round: Sequence[float]


def optimum(cells: Sequence[MeasuredLoad]) -> Optimum:
    """Return the optimal load of one placement; `cells` are its loads, at least one, by growing load."""
    best = max(cells, key=lambda cell: cell.interval(PROCESSED).estimate)
    figures = {float(cell.devices): cell.by_unit(PROCESSED) for cell in cells}
    # A round (or run) that lacks a load is left out.
    units = [unit for unit in best.by_unit(PROCESSED) if all(unit in one for one in figures.values())]
    by_round = [max(figures, key=lambda load: figures[load][unit]) for unit in units]
    return Optimum(best.place, best.devices, best.interval(PROCESSED).estimate, by_round)


def best_loads(cells: Sequence[MeasuredLoad]) -> dict[Unit, int]:
    """Return for each round (or run) the load at which the rounds of the other half process most: cross-fitting.

    A round that chose its own load would be compared where chance favoured it. `cells` are of one placement or more.
    """
    figures = [(cell.devices, cell.by_unit(PROCESSED)) for cell in cells]
    units = sorted(set.intersection(*(set(one) for _, one in figures))) if figures else []
    best = {}
    for at, unit in enumerate(units):
        others = units[(at + 1) % 2 :: 2] or units
        best[unit] = max(figures, key=lambda one: fmean(one[1][other] for other in others))[0]
    return best


def optima(run: MeasuredRuns) -> list[Optimum]:
    """Return the optimal load of each placement."""
    return [optimum(cells) for cells in places(run).values()]


def siblings(run: MeasuredRuns) -> tuple[Placement, Placement] | str:
    """Return one processor of each core, and all processors, as the paper's 20 and 40."""
    parameters = run.run.parameters
    siblings, every = parameters.get("siblings") or [], int(parameters.get("processors") or 0)
    cores = every - sum(len(core) - 1 for core in siblings)
    if not siblings:
        return "Each core of this machine is one processor: it cannot show what SMT siblings add."
    if any(len(set(range(cores)) & set(core)) > 1 for core in siblings):
        return f"The first {cores} processors of this machine are not of as many cores."
    sides = [place for place in places(run) if place.container and place.cores in (cores, every)]
    return (
        (sides[0], sides[1]) if len(sides) == 2 else f"The run has no sound load on {cores} and on {every} processors."
    )


def balancer(run: MeasuredRuns) -> tuple[Placement, Placement] | str:
    """Return a placement without and with the balancer, or in words why a run has none; likewise the two below."""
    measured = places(run)
    both = [(place, place._replace(balancer=True)) for place in measured if not place.balancer]
    sides = [(direct, balanced) for direct, balanced in both if balanced in measured]
    return sides[0] if sides else "The run has no node with and without the balancer."


def more_nodes(run: MeasuredRuns) -> tuple[Placement, Placement] | str:
    one, spread, _beyond = _layouts(run)
    return (one, spread) if one and spread else "The run has no sound load on one node and on several."


def beyond_best(run: MeasuredRuns) -> tuple[Placement, Placement] | str:
    _one, spread, beyond = _layouts(run)
    if spread and beyond:
        return beyond, spread
    exhausted = sorted({str(cell.place) for cell in load_cells(run) if cell.starved})
    more = f" Out of memory: {'; '.join(exhausted)}." if exhausted else ""
    return f"The run has no sound load on more nodes than have their own cores.{more}"


def _layouts(run: MeasuredRuns) -> tuple[Placement | None, Placement | None, Placement | None]:
    """Return one node, the nodes that stand for 5 x 4, and those that stand for 7 x 3; None where there is none.

    All are behind the balancer. The second has the most nodes with as many cores in all as one node, the third the next
    more nodes.
    """
    balanced = [place for place in places(run) if place.balancer]
    one = max((place for place in balanced if place.nodes == 1), default=None)
    several = [place for place in balanced if one and place.nodes > 1 and place.nodes * place.cores <= one.cores]
    spread = BEST if BEST in balanced else several[-1] if several else None
    beyond = [place for place in balanced if spread and place.nodes > spread.nodes]
    return one, spread, beyond[0] if beyond else None
