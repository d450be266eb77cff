"""Compare two placements by the repetitions of their cells."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from looplab.experiments.middleware.report import MeasuredLoad, by_place, by_unit
from looplab.experiments.middleware.report.optimum import optimum
from looplab.report.claims import means
from looplab.report.finding import Finding
from looplab.report.statistics import FEWEST_REPETITIONS, UNKNOWN, Interval, compare
from looplab.report.verdicts import UNDECIDED, Rule

# A load of which so much is processed does not show what a placement can do.
ALL = 0.99
# Figures of a repetition; the median since a request was sent is the paper's time at the client.
PROCESSED, CLIENT, SERVER = "processed_per_s", "sent_response.p50", "server.p50"
Pair = tuple[MeasuredLoad, MeasuredLoad]


def container_pairs(cells: Iterable[MeasuredLoad]) -> list[Pair]:
    """Return (bare metal, container) of each number of cores and load that was measured on both."""
    by_key = {cell.key: cell for cell in cells}
    pairs = [(cell, by_key.get((True, *key[1:]))) for key, cell in by_key.items() if not cell.container]
    return [(bare, boxed) for bare, boxed in pairs if boxed is not None]


def at_optimum(pairs: Sequence[Pair]) -> list[Pair]:
    """Return of each number of cores the pair at the optimal load of its first side."""
    best = {place: optimum(cells).load for place, cells in by_place(pair[0] for pair in pairs).items()}
    return [pair for pair in pairs if pair[0].devices == best[pair[0].place]]


def sides(pairs: Sequence[Pair], figure: str) -> tuple[list[float], list[float]]:
    """Return the figure of each round, or of three or more runs, on both sides, its geometric mean over the pairs.

    A round that lacks the figure in one of the pairs is left out.
    """
    first, second = (means([pair[at] for pair in pairs], lambda cell: cell.by_round(figure)) for at in (0, 1))
    return list(by_unit(first).values()), list(by_unit(second).values())


def tested(before: Sequence[float], after: Sequence[float], rule: Rule) -> Finding:
    """Return a finding that `rule` decides once the p-values of all claims are known."""
    comparison = compare(before, after)
    if comparison is None:
        have = f"{len(before)} and {len(after)}"
        return Finding(UNDECIDED, f"{FEWEST_REPETITIONS} sound repetitions a side are needed; there are {have}.")
    return Finding(UNDECIDED, "", tested=comparison, rule=rule)


def throughput(pairs: Sequence[Pair], rule: Rule, measured: Iterable[MeasuredLoad]) -> Finding:
    """Return the finding on what both sides process; undecided if the only load `measured` asks too little of both."""
    if len({cell.devices for cell in measured}) == 1 and all(_whole(cell) for pair in pairs for cell in pair):
        return Finding(UNDECIDED, "Both sides process all of the only load: a higher one is needed.")
    return tested(*sides(pairs, PROCESSED), rule)


def _whole(cell: MeasuredLoad) -> bool:
    offered = sum(float(one.requests / one.document["seconds"]) for one in cell.every)
    return sum(cell.by_round(PROCESSED).values()) >= ALL * offered


def difference(pair: Pair, figure: str) -> Interval:
    """Return the paper's (first - second) / first of a figure, with its interval over the repetitions."""
    before, after = sides([pair], figure)
    if comparison := compare(before, after):
        return Interval(-comparison.share.estimate, -comparison.share.high, -comparison.share.low)
    if not before or not after:
        return UNKNOWN
    return Interval(1 - float(np.mean(after)) / float(np.mean(before)), math.nan, math.nan)
