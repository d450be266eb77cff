"""What the paper found, as questions that stored runs answer by their repetitions."""

from collections.abc import Sequence
from itertools import chain

from looplab.experiments.middleware import NAME, NODES, place_text
from looplab.experiments.middleware.report import MeasuredLoad, Place, by_place, load_cells, usable
from looplab.experiments.middleware.report.comparisons import (
    CLIENT,
    PROCESSED,
    SERVER,
    Pair,
    at_optimum,
    container_pairs,
    difference,
    sides,
    tested,
    throughput,
)
from looplab.experiments.middleware.report.optimum import ONLY, optima, optimum
from looplab.experiments.middleware.report.published import BEST, BEYOND, DIRECT, ONE, change, published
from looplab.report.claims import claims_of
from looplab.report.finding import Finding, Line, exact
from looplab.report.rules import directed, no_cost, no_gain
from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_REPETITIONS, compare
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim

# The paper calls a system stable up to this share of errors.
MOST_ERRORS = 0.02


def claims() -> list[Claim]:
    """Return the findings in the order of the paper."""
    cores = {
        ("cores-move-optimum", "More cores move the optimal load to more devices"): _cores,
        ("container-processed", "A container processes as many requests as bare metal"): _container,
        ("container-time", "A request takes as long in a container as on bare metal"): _container_time,
        ("errors-below", "Up to the optimal load fewer than 2 % of the requests fail"): _errors,
    }
    nodes = {
        ("balancer-free", "The balancer costs nothing"): _balancer,
        ("more-nodes", "More nodes with fewer cores each process more"): _more_nodes,
        ("five-beat-seven", "Five nodes of four cores process more than seven of three"): _five,
        ("errors-below-nodes", "Up to the optimal load fewer than 2 % fail, whatever the nodes"): _errors,
    }
    return [*claims_of(NAME, cores), *claims_of(NODES, nodes)]


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
    every = optima(run)
    optimal = [best for place, best in every.items() if place[0]] or list(every.values())
    if len(optimal) < 2:
        return Finding(NO_RUN, "The run has loads on one number of cores only.")
    if any(best.edge == ONLY for best in optimal):
        return Finding(NO_RUN, "The run has one load only: an optimal one needs several.")
    rule = directed("The optimal load", +1, published_change("cores-move-optimum"))
    finding = tested(optimal[0].by_round, optimal[-1].by_round, rule)
    loads = published("optimal load")
    printed = [loads.get((1, best.place[3], False)) for best in optimal]
    finding.lines = [
        Line(place_text(*best.place), best.devices, f"{load:g}" if load else "", "devices")
        for best, load in zip(optimal, printed, strict=True)
    ]
    finding.beside += [best.remark for best in optimal if best.edge]
    return finding


def _container(run: Measured) -> Finding:
    pairs = container_pairs(usable(run))
    if not pairs:
        return Finding(NO_RUN, "The run has no load in a container and on bare metal.")
    best = at_optimum(pairs)
    finding = throughput(best, no_gain("The throughput in a container"), usable(run))
    finding.lines = _lines(pairs, {"processed": PROCESSED})
    if comparison := compare(*sides(best, "cpu_per_request")):
        share = comparison.share
        finding.beside.append(
            f"At the optimal load the processor time of a request changes by {share.estimate:+.1%} in a container "
            f"({share.low:+.1%} to {share.high:+.1%})."
        )
    return finding


def _container_time(run: Measured) -> Finding:
    pairs = container_pairs(usable(run))
    if not pairs:
        return Finding(NO_RUN, "The run has no load in a container and on bare metal.")
    finding = tested(*sides(at_optimum(pairs), CLIENT), no_cost("The median time of a request"))
    finding.lines = _lines(pairs, {"client": CLIENT, "server": SERVER})
    return finding


def _lines(pairs: Sequence[Pair], figures: dict[str, str]) -> list[Line]:
    """Return the paper's normalised difference of each pair of cells, of each of `figures`."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].place, pair[0].devices))
    return [
        Line(
            f"{name}, {pair[0].devices} devices, {_short(pair[0].place)}",
            difference(pair, figure),
            "about 0 %",
            "share",
        )
        for pair in ordered
        for name, figure in figures.items()
    ]


def _errors(run: Measured) -> Finding:
    lines, single, repetitions, unfinished = [], [0.0], [], [0.0]
    for cells in by_place(usable(run)).values():
        best = optimum(cells).load
        for cell in (cell for cell in cells if cell.devices <= best):
            shares = [one.figure("failed_share") or 0.0 for one in cell.every]
            lines.append(Line(str(cell), exact(sum(shares) / len(shares)), f"below {MOST_ERRORS:.0%}", "part"))
            single += shares
            repetitions.append(len(shares))
            unfinished.append(cell.document["unfinished"] / max(1, cell.requests))
    if not lines:
        return Finding(NO_RUN, "The run has no sound load.")
    worst = max(line.value.estimate for line in lines)
    outcome = REPRODUCED if max(single) < MOST_ERRORS else NOT_REPRODUCED if worst >= MOST_ERRORS else UNDECIDED
    reason = f"At most {worst:.2%} fail, on average over the repetitions of a load."
    if min(repetitions) < FEWEST_REPETITIONS:
        outcome, more = UNDECIDED, f" A verdict needs {FEWEST_REPETITIONS} sound repetitions of each load."
    else:
        more = f" Single repetitions reach {MOST_ERRORS:.0%}." if outcome == UNDECIDED else ""
    most = max(unfinished)
    beside = [f"Up to {most:.1%} of the requests of a load had no answer at its end."] if most else []
    return Finding(outcome, reason + more, beside=beside, lines=lines)


def _balancer(run: Measured) -> Finding:
    places = by_place(usable(run))
    direct = [place for place in places if not place[1] and (place[0], True, *place[2:]) in places]
    if not direct:
        return Finding(NO_RUN, "The run has no node with and without the balancer.")
    container, _, nodes, cores = direct[0]
    balanced = (container, True, nodes, cores)
    return _against(places, direct[0], balanced, "The throughput behind the balancer", "balancer-free")


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
        exhausted = sorted({place_text(*cell.place) for cell in load_cells(run) if cell.starved})
        more = f" Out of memory: {'; '.join(exhausted)}." if exhausted else ""
        return Finding(NO_RUN, f"The run has no sound load on more nodes than have their own cores.{more}")
    finding = _against(places, beyond, spread, f"The throughput of {_short(spread)}", "five-beat-seven")
    if spread[2:] != BEST[:2]:
        finding.beside.append(
            f"The run lacks 5 x 4: {_short(spread)} and {_short(beyond)} stand for "
            "the best number of nodes and for more nodes than that."
        )
    return finding


def _balanced(run: Measured) -> dict[Place, list[MeasuredLoad]]:
    return {place: cells for place, cells in by_place(usable(run)).items() if place[1]}


def _layouts(places: Sequence[Place]) -> tuple[Place | None, Place | None, Place | None]:
    """Return one node, the nodes that stand for 5 x 4, and those that stand for 7 x 3; None where there is none.

    The second has the most nodes with as many cores in all as one node, the third the next more nodes.
    """
    by_nodes = sorted(places, key=lambda place: place[2])
    one = next((place for place in reversed(by_nodes) if place[2] == 1), None)
    cores = one[3] if one else 0
    several = [place for place in by_nodes if place[2] > 1 and place[2] * place[3] <= cores]
    best = [place for place in by_nodes if place[2:] == BEST[:2]]
    spread = next(iter([*best, *several[-1:]]), None)
    beyond = [place for place in by_nodes if spread and place[2] > spread[2]]
    return one, spread, next((place for place in beyond if place[2:] == BEYOND[:2]), next(iter(beyond), None))


def _against(places: dict[Place, list[MeasuredLoad]], before: Place, after: Place, what: str, claim: str) -> Finding:
    """Compare what two placements process at the optimal load of the one that processes most."""
    best = max((optimum(places[place]) for place in (before, after)), key=lambda one: one.processed)
    pair = [cell for place in (before, after) for cell in places[place] if cell.devices == best.load]
    if len(pair) < 2:
        return Finding(NO_RUN, f"There is no sound cell of {best.load} devices on both.")
    printed = published_change(claim)
    rule = no_gain(what) if claim == "balancer-free" else directed(what, +1, printed)
    finding = throughput([(pair[0], pair[1])], rule, chain(*places.values()))
    finding.lines = [Line(str(cell), cell.interval(PROCESSED), "", "requests") for cell in pair]
    if finding.tested and printed is not None:
        finding.lines = [*finding.lines, Line("change", finding.tested.share, f"{printed:+.1%}", "share")]
    finding.beside += [best.remark] if best.edge else []
    return finding


def _short(place: Place) -> str:
    return place_text(*place).partition(",")[0]
