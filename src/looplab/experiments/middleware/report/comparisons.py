"""Compare two placements by the repetitions of their cells."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from looplab.experiments.middleware.report.cell import MeasuredLoad, Repetition, by_unit
from looplab.experiments.middleware.report.optimum import by_place, optimum
from looplab.report.finding import Finding
from looplab.report.rules import MATTERS
from looplab.report.statistics import FEWEST_REPETITIONS, SIGNIFICANCE, UNKNOWN, Comparison, Interval, compare
from looplab.report.verdicts import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Rule

# A load of which so much is processed does not show what a placement can do.
ALL = 0.99
# A figure of one repetition, None where it is unknown.
Figure = Callable[[Repetition], float | None]
Pair = tuple[MeasuredLoad, MeasuredLoad]
Sides = tuple[list[float], list[float]]


def processed(one: Repetition) -> float | None:
    """Return the requests that succeeded in a second."""
    return one.processed


def client_us(one: Repetition) -> float | None:
    """Return the median time of a request since it was sent, as the paper measures it."""
    return one.time_us("sent_response")


def server_us(one: Repetition) -> float | None:
    """Return the median time of a request inside the middleware."""
    return one.time_us("server")


def container_pairs(cells: Iterable[MeasuredLoad]) -> list[Pair]:
    """Return (bare metal, container) of each number of cores and load that was measured on both."""
    by_key = {cell.key: cell for cell in cells}
    boxed = {key[1:]: cell for key, cell in by_key.items() if key[0]}
    return [(cell, boxed[key[1:]]) for key, cell in by_key.items() if not key[0] and key[1:] in boxed]


def at_optimum(pairs: Sequence[Pair]) -> list[Pair]:
    """Return of each number of cores the pair at the optimal load of its first side."""
    best = {place: optimum(held).load for place, held in by_place(pair[0] for pair in pairs).items()}
    return [pair for pair in pairs if pair[0].devices == best[pair[0].place]]


def sides(pairs: Sequence[Pair], figure: Figure) -> Sides:
    """Return the figure of each round, or of three or more runs, on both sides, its geometric mean over the pairs.

    A round that lacks the figure in one of the pairs is left out.
    """
    first, second = ([pair[at] for pair in pairs] for at in (0, 1))
    return _by_round(first, figure), _by_round(second, figure)


def _by_round(cells: Sequence[MeasuredLoad], figure: Figure) -> list[float]:
    held = [{one.round: value for one in cell.every if (value := figure(one))} for cell in cells]
    whole = [name for name in held[0] if all(name in found for found in held)] if held else []
    found = {name: math.exp(float(np.mean([math.log(figures[name]) for figures in held]))) for name in whole}
    return list(by_unit(found).values())


def tested(before: Sequence[float], after: Sequence[float], rule: Rule) -> Finding:
    """Return a finding that `rule` decides once the p-values of all claims are known."""
    found = compare(before, after)
    if found is None:
        have = f"{len(before)} and {len(after)}"
        return Finding(UNDECIDED, f"{FEWEST_REPETITIONS} sound repetitions a side are needed; there are {have}.")
    return Finding(UNDECIDED, "", tested=found, rule=rule)


def throughput(pairs: Sequence[Pair], rule: Rule, measured: Iterable[MeasuredLoad]) -> Finding:
    """Return the finding on what both sides process; undecided if the only load `measured` asks too little of both."""
    if len({cell.devices for cell in measured}) == 1 and all(_whole(cell) for pair in pairs for cell in pair):
        return Finding(UNDECIDED, "Both sides process all of the only load: a higher one is needed.")
    return tested(*sides(pairs, processed), rule)


def _whole(cell: MeasuredLoad) -> bool:
    offered = sum(float(one.document["requests"] / one.document["seconds"]) for one in cell.every)
    return sum(one.processed for one in cell.every) >= ALL * offered


def difference(pair: Pair, figure: Figure) -> Interval:
    """Return the paper's (first - second) / first of a figure, with its interval over the repetitions."""
    before, after = sides([pair], figure)
    found = compare(before, after)
    if found:
        return Interval(-found.share.estimate, -found.share.high, -found.share.low)
    if not before or not after:
        return UNKNOWN
    return Interval(1 - float(np.mean(after)) / float(np.mean(before)), math.nan, math.nan)


def not_raised(found: Comparison, p_value: float) -> tuple[str, str]:
    """Decide whether the time of a request is not raised by as much as matters."""
    what, share = "The median time of a request", found.share
    if share.high < MATTERS:
        return REPRODUCED, f"{what} is not raised by {MATTERS:.0%} or more."
    if share.low > MATTERS and p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{what} is raised by more than {MATTERS:.0%}."
    return UNDECIDED, f"The interval holds both no cost and one of {MATTERS:.0%} or more."
