"""What the paper found about several brokers: totals, each one's rate, and the variance of their times."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from looplab.experiments.twin.parameters import CENTRAL, DISTRIBUTED
from looplab.experiments.twin.report import variance
from looplab.experiments.twin.report.groups import ITERATIONS, Group, groups, published, published_ratio
from looplab.experiments.twin.report.variance import Ratio
from looplab.report.claims import outcome_of
from looplab.report.finding import Finding, Line, within
from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_RUNS, compare, over_runs
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED

# A change within this share is none.
SAME = 0.05
# Totals within this share are similar: the printed ones differ by 2.5 % (two brokers) and 5.5 % (four).
SIMILAR = 0.1


def more_brokers(run: Measured) -> Finding:
    all_groups = groups(run)
    lines = [
        Line(f"{group}: {what}", value, group.printed(name), "/s")
        for group in all_groups
        for what, name, values in (("each", "broker-rate", group.each), ("total", "total-rate", group.total))
        if (value := over_runs(values)) and not (group.brokers == 1 and what == "total")
    ]
    steps = list(_steps(all_groups))
    if not steps:
        return Finding(NO_RUN, "Needs at least two numbers of brokers.", lines=lines)
    total, each = ([_changed(getattr(a, name), getattr(b, name)) for a, b in steps] for name in ("total", "each"))
    reason = f"The total {_words(total, 1)}, the rate of each broker {_words(each, -1)}."
    if None in total or None in each:
        return Finding(UNDECIDED, reason, lines=lines)
    holds = all(way == 1 for way in total) and all(way == -1 for way in each)
    return Finding(REPRODUCED if holds else NOT_REPRODUCED, reason, lines=lines)


def _steps(all_groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Yield the pairs with which more brokers are compared: each placement in the order of its brokers, from one on."""
    for placement in (CENTRAL, DISTRIBUTED):
        row = [group for group in all_groups if group.brokers == 1 or group.placement == placement]
        yield from pairwise(row)


def _changed(before: Sequence[float], after: Sequence[float]) -> int | None:
    """Return 1 for higher, -1 for lower, 0 for neither; None for too few repetitions or an open sign.

    Neither: the interval of the change lies within SAME.
    """
    comparison = compare(before, after)
    if comparison is None:
        return None
    share = comparison.share
    if share.low > 0 or share.high < 0:
        return 1 if share.low > 0 else -1
    return 0 if share.low > -SAME and share.high < SAME else None


def _words(ways: Sequence[int | None], wanted: int) -> str:
    word = "rises" if wanted > 0 else "falls"
    opened = f", {ways.count(None)} open" if None in ways else ""
    return f"{word} at {ways.count(wanted)} of {len(ways)} steps{opened}"


def alike(run: Measured) -> Finding:
    by_place = {(group.brokers, group.placement): group for group in groups(run)}
    numbers = sorted({brokers for brokers, placement in by_place if placement == CENTRAL})
    shares = {
        n: change.share
        for n in numbers
        if (other := by_place.get((n, DISTRIBUTED))) and (change := compare(by_place[n, CENTRAL].total, other.total))
    }
    if not shares:
        return Finding(NO_RUN, "Needs both placements, each at least twice.")
    lines = [
        Line(f"{n} brokers: distributed against central", share, f"{_published_total(n):+.1%}", "change")
        for n, share in shares.items()
    ]
    reason = f"Distributed totals differ by {', '.join(f'{share.estimate:+.1%}' for share in shares.values())}; "
    reason += f"similar is within {SIMILAR:.0%}."
    return Finding(outcome_of([within(one, -SIMILAR, SIMILAR) for one in shares.values()]), reason, lines=lines)


def _published_total(brokers: int) -> float:
    central, distributed = (published().get(("total-rate", brokers, at), math.nan) for at in (CENTRAL, DISTRIBUTED))
    return distributed / central - 1


def varies(run: Measured) -> Finding:
    by_place = {(group.brokers, group.placement): group for group in groups(run)}
    numbers = sorted({brokers for brokers, _placement in by_place if brokers > 1})
    lines = [
        Line(f"{group}: variance", value, group.printed("variance"), "s²")
        for group in by_place.values()
        if group.brokers > 1 and (value := group.variance)
    ]
    ratios = {
        n: ratio for n in numbers if (ratio := _ratio(by_place.get((n, CENTRAL)), by_place.get((n, DISTRIBUTED))))
    }
    if not ratios:
        return Finding(NO_RUN, "Needs both placements, each at least twice.", lines=lines)
    lines[:0] = [
        Line(f"{n} brokers: distributed over central", ratio.value, _published_over(n)) for n, ratio in ratios.items()
    ]
    outcome = outcome_of([within(ratio.value, 1.0, math.inf) for ratio in ratios.values()])
    p_values = ", ".join(f"{n} brokers: p {ratio.p_value:.2g}" for n, ratio in ratios.items())
    how = "by F" if len(run.runs) < FEWEST_RUNS else "run by run"
    return Finding(outcome, f"Variances compared {how}, {p_values}.", notes=_as_printed(), lines=lines)


def _published_over(brokers: int) -> str:
    key = ("variance", brokers, DISTRIBUTED)
    return f"{published_ratio(brokers).value.estimate:.3g}" if key in published() else ""


def _ratio(central: Group | None, distributed: Group | None) -> Ratio | None:
    if central and distributed and len(central.variances) == len(distributed.variances) >= FEWEST_RUNS:
        return variance.over_runs(distributed.variances, central.variances)
    one, other = (variance.pooled(group.times_s) if group else None for group in (central, distributed))
    if not one or not other or min(one[0], other[0]) <= 0:
        return None
    return variance.compare(other[0], one[0], (other[1], one[1]))


def _as_printed() -> list[str]:
    """Return what the published variances show by themselves: five values a side decide nothing."""
    sentences = []
    for brokers in (2, 4):
        ratio = published_ratio(brokers)
        ends = f"{ratio.value.low:.2g} to {ratio.value.high:.2g}"
        sentences.append(
            f"As printed, {brokers} brokers: {ratio.value.estimate:.2g} times the variance, 95 % interval {ends} from "
            f"{ITERATIONS} iterations, p {ratio.p_value:.2g}."
        )
    return sentences
