"""What the paper found, as questions that stored runs answer by their repetitions."""

import math
from collections.abc import Sequence
from itertools import chain

from looplab.experiments.middleware import place_text
from looplab.experiments.middleware.report.cell import MeasuredLoad, Place
from looplab.experiments.middleware.report.comparisons import (
    Pair,
    at_optimum,
    client_us,
    container_pairs,
    difference,
    not_raised,
    processed,
    server_us,
    sides,
    tested,
    throughput,
)
from looplab.experiments.middleware.report.optimum import (
    FIRST,
    ONLY,
    Optimum,
    by_place,
    load_cells,
    optima,
    optimum,
    usable,
)
from looplab.experiments.middleware.report.published import BEST, BEYOND, DIRECT, ONE, change, published
from looplab.report.finding import Finding, Line, asked, exact
from looplab.report.rules import directed, no_gain
from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_REPETITIONS, compare
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim

CORES, NODES = "middleware", "middleware-nodes"
# The paper calls a system stable up to this share of errors.
MOST_ERRORS = 0.02


def claims() -> list[Claim]:
    """Return the findings in the order of the paper."""
    return [
        asked("cores-move-optimum", "More cores move the optimal load to more devices", CORES, _cores),
        asked("container-processed", "A container processes as many requests as bare metal", CORES, _container),
        asked("container-time", "A request takes as long in a container as on bare metal", CORES, _container_time),
        asked("errors-below", "Up to the optimal load fewer than 2 % of the requests fail", CORES, _errors),
        asked("balancer-free", "The balancer costs nothing", NODES, _balancer),
        asked("more-nodes", "More nodes with fewer cores each process more", NODES, _more_nodes),
        asked("five-beat-seven", "Five nodes of four cores process more than seven of three", NODES, _five),
        asked("errors-below-nodes", "Up to the optimal load fewer than 2 % fail, whatever the nodes", NODES, _errors),
    ]


def published_change(claim: str) -> float | None:
    """Return the published change that a claim is about, as a share; None where the paper prints none."""
    loads = published("optimal load")
    return {
        "cores-move-optimum": loads[1, 40, False] / loads[1, 4, False] - 1,
        "container-processed": 0.0,
        "container-time": 0.0,
        "balancer-free": change(DIRECT, ONE),
        "more-nodes": change(ONE, BEST),
        "five-beat-seven": change(BEYOND, BEST),
    }.get(claim)


def _cores(run: Measured) -> Finding:
    found = [best for place, best in optima(run).items() if place[0]] or list(optima(run).values())
    if len(found) < 2:
        return Finding(NO_RUN, "The run has loads on one number of cores only.")
    if any(best.edge == ONLY for best in found):
        return Finding(NO_RUN, "The run has one load only: an optimal one needs several.")
    rule = directed("The optimal load", +1, published_change("cores-move-optimum"))
    finding = tested(found[0].by_round, found[-1].by_round, rule)
    loads = published("optimal load")
    finding.lines = [
        Line(place_text(*best.place), best.devices, _printed(loads.get((1, best.place[3], False))), "devices")
        for best in found
    ]
    finding.beside += [_at_edge(best) for best in found if best.edge]
    return finding


def _at_edge(best: Optimum) -> str:
    where, load = place_text(*best.place), f"{best.load} devices"
    if best.edge == FIRST:
        return f"{where}: the lowest load of the run, {load}, already overloads it; the optimal load may be below it."
    if best.edge == ONLY:
        return f"{where}: no other load than {load} was measured."
    return f"{where}: the highest load of the run, {load}, was the best; the optimal load may be above it."


def _container(run: Measured) -> Finding:
    pairs = container_pairs(usable(run))
    if not pairs:
        return Finding(NO_RUN, "The run has no load in a container and on bare metal.")
    best = at_optimum(pairs)
    finding = throughput(best, no_gain("The throughput in a container"), usable(run))
    finding.lines = [_line(pair, "processed") for pair in _ordered(pairs)]
    if found := compare(*sides(best, lambda one: one.cpu_per_request)):
        share = found.share
        finding.beside.append(
            f"At the optimal load the processor time of a request changes by {share.estimate:+.1%} in a container "
            f"({share.low:+.1%} to {share.high:+.1%})."
        )
    return finding


def _container_time(run: Measured) -> Finding:
    pairs = container_pairs(usable(run))
    if not pairs:
        return Finding(NO_RUN, "The run has no load in a container and on bare metal.")
    finding = tested(*sides(at_optimum(pairs), client_us), not_raised)
    finding.lines = [_line(pair, name) for pair in _ordered(pairs) for name in ("client", "server")]
    return finding


def _ordered(pairs: Sequence[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: (pair[0].place, pair[0].devices))


_FIGURES = {"processed": processed, "client": client_us, "server": server_us}


def _line(pair: Pair, name: str) -> Line:
    """Return the paper's normalised difference of one cell."""
    bare = pair[0]
    what = f"{name}, {bare.devices} devices, {place_text(*bare.place).partition(',')[0]}"
    return Line(what, difference(pair, _FIGURES[name]), "about 0 %", "share")


def _errors(run: Measured) -> Finding:
    lines, worst, most, unfinished = [], 0.0, 0.0, 0.0
    fewest = math.inf
    for cells in by_place(usable(run)).values():
        best = optimum(cells)
        for cell in (cell for cell in cells if cell.devices <= best.load):
            shares = [one.failed_share for one in cell.every]
            mean = sum(shares) / len(shares)
            lines.append(Line(str(cell), exact(mean), f"below {MOST_ERRORS:.0%}", "part"))
            worst, most, fewest = max(worst, mean), max(most, *shares), min(fewest, len(shares))
            unfinished = max(unfinished, cell.document["unfinished"] / max(1, cell.requests))
    if not lines:
        return Finding(NO_RUN, "The run has no sound load.")
    outcome, reason = _error_outcome(worst, most, fewest)
    beside = [f"Up to {unfinished:.1%} of the requests of a load had no answer at its end."] if unfinished else []
    return Finding(outcome, reason, beside=beside, lines=lines)


def _error_outcome(worst: float, most: float, fewest: float) -> tuple[str, str]:
    """Return outcome and reason from the highest mean and the highest single share, and the fewest repetitions."""
    said = f"At most {worst:.2%} fail, on average over the repetitions of a load."
    if fewest < FEWEST_REPETITIONS:
        return UNDECIDED, f"{said} A verdict needs {FEWEST_REPETITIONS} sound repetitions of each load."
    if most < MOST_ERRORS:
        return REPRODUCED, said
    if worst >= MOST_ERRORS:
        return NOT_REPRODUCED, said
    return UNDECIDED, f"{said} Single repetitions reach {MOST_ERRORS:.0%}."


def _balancer(run: Measured) -> Finding:
    places = by_place(usable(run))
    pairs = [(place, (place[0], True, *place[2:])) for place in places if not place[1]]
    found = [(direct, balanced) for direct, balanced in pairs if balanced in places]
    if not found:
        return Finding(NO_RUN, "The run has no node with and without the balancer.")
    direct, balanced = found[0]
    return _against(places, direct, balanced, "The throughput behind the balancer", "balancer-free")


def _more_nodes(run: Measured) -> Finding:
    places = _balanced(run)
    one, spread, _beyond = _layouts(list(places))
    if one is None or spread is None:
        return Finding(NO_RUN, "The run has no sound load on one node and on several.")
    return _against(places, one, spread, f"The throughput of {_short(spread)}", "more-nodes")


def _five(run: Measured) -> Finding:
    places = _balanced(run)
    _one, spread, beyond = _layouts(list(places))
    if spread is None or beyond is None:
        return Finding(NO_RUN, "The run has no sound load on more nodes than have their own cores." + _exhausted(run))
    finding = _against(places, beyond, spread, f"The throughput of {_short(spread)}", "five-beat-seven")
    if spread[2:] != BEST[:2]:
        finding.beside.append(
            f"The run lacks 5 x 4: {_short(spread)} and {_short(beyond)} stand for "
            "the best number of nodes and for more nodes than that."
        )
    return finding


def _exhausted(run: Measured) -> str:
    held = sorted({place_text(*cell.place) for cell in load_cells(run) if cell.out_of_memory})
    return f" Out of memory: {'; '.join(held)}." if held else ""


def _balanced(run: Measured) -> dict[Place, list[MeasuredLoad]]:
    return {place: cells for place, cells in by_place(usable(run)).items() if place[1]}


def _layouts(places: Sequence[Place]) -> tuple[Place | None, Place | None, Place | None]:
    """Return one node, the nodes that stand for 5 x 4, and those that stand for 7 x 3; None where there is none.

    The second has the most nodes with as many cores in all as one node, the third the next more nodes.
    """
    by_nodes = sorted(places, key=lambda place: place[2])
    published_best = [place for place in by_nodes if place[2:] == BEST[:2]]
    single = [place for place in by_nodes if place[2] == 1]
    one = single[-1] if single else None
    cores = one[3] if one else 0
    several = [place for place in by_nodes if place[2] > 1 and place[2] * place[3] <= cores]
    spread = published_best[0] if published_best else several[-1] if several else None
    beyond = [place for place in by_nodes if spread and place[2] > spread[2]]
    published_beyond = [place for place in beyond if place[2:] == BEYOND[:2]]
    return one, spread, next(iter(published_beyond or beyond), None)


def _against(places: dict[Place, list[MeasuredLoad]], before: Place, after: Place, what: str, claim: str) -> Finding:
    """Compare what two placements process at the optimal load of the one that processes most."""
    best = max((optimum(places[place]) for place in (before, after)), key=lambda found: found.processed)
    pair = [next((cell for cell in places[place] if cell.devices == best.load), None) for place in (before, after)]
    if pair[0] is None or pair[1] is None:
        return Finding(NO_RUN, f"There is no sound cell of {best.load} devices on both.")
    printed = published_change(claim)
    rule = no_gain(what) if claim == "balancer-free" else directed(what, +1, printed)
    finding = throughput([(pair[0], pair[1])], rule, chain(*places.values()))
    finding.lines = [Line(str(cell), cell.processed, "", "requests") for cell in pair if cell]
    if finding.tested and printed is not None:
        finding.lines = [*finding.lines, Line("change", finding.tested.share, f"{printed:+.1%}", "share")]
    finding.beside += [_at_edge(best)] if best.edge else []
    return finding


def _short(place: Place) -> str:
    return place_text(*place).partition(",")[0]


def _printed(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
