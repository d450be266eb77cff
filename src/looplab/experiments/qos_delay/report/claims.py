"""What the paper found, as rows that stored runs answer."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np

from looplab.experiments.qos_delay import USUAL
from looplab.experiments.qos_delay.report import MeasuredDelayCell
from looplab.report.csv_rows import printed
from looplab.report.rules import NEAR, Answer, about, at_least, kept, stated
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import UNKNOWN, Interval, over_runs
from looplab.report.verdicts import Line, Verdict, not_run

QOS = (0, 1, 2)
# "Hardly depends", "does not matter": less than this share.
MATTERS = 0.25
ALIKE = 0.20
# Those that the source measured with.
PUBLISHED_DISTRIBUTIONS = ("uniform", USUAL, "pareto")
# Fewer delays than this show no growth.
FEWEST_DELAYS = 4
# Cells that should be alike, by what they have in common.
Groups = Mapping[tuple[Any, int], list[MeasuredDelayCell]]


@cache
def published() -> dict[str, float]:
    """Return the figures that the paper's text gives, by finding."""
    return {line["finding"]: float(line["published"]) for line in printed(__file__, "qos_delay.csv")}


def answers() -> dict[str, Answer]:
    """Return what answers each finding."""
    wanted, least, most = published(), "qos-2-least", "qos-2-most"
    short, long = "one-way-when-short", "round-trip-beyond"
    missing = "no symmetrical cell whose round trip is {} the period"
    no_qos_2 = "no symmetrical cell at QoS 2"
    by_place = partial(_like, places, "end-to-end delay was measured with the broker at more than one place")
    return {
        short: about("ratio", wanted[short], partial(_low_qos, True), missing.format("below")),
        long: about("ratio", wanted[long], partial(_low_qos, False), missing.format("above")),
        least: at_least("ratio", wanted[least], partial(symmetrical, qos=2), no_qos_2, "end-to-end delays"),
        most: at_least("ratio", wanted[most], _longest_at_qos_2, no_qos_2, "end-to-end delays"),
        "aggregation-grows": _grows,
        "segment-size": _segment_size,
        "aggregation-qos": _by_qos,
        "place": by_place,
        "distributions": partial(_like, distributions, "cell was measured with more than one distribution"),
    }


def usable(run: MeasuredRuns) -> list[MeasuredDelayCell]:
    """Return the valid cells whose delay is known, over the network that the source's figures are about."""
    return [cell for cell in _known(run) if cell.network == USUAL]


def symmetrical(run: MeasuredRuns, qos: int) -> list[MeasuredDelayCell]:
    """Return the usable cells with both links alike, by growing delay."""
    return sorted((c for c in usable(run) if c.symmetrical and c.qos == qos), key=lambda c: c.wanted_ms)


def places(run: MeasuredRuns) -> Groups:
    """Return, by end-to-end delay and QoS, the usable cells with the broker at more than one place."""
    groups: dict[tuple[float, int], list[MeasuredDelayCell]] = {}
    for cell in usable(run):
        groups.setdefault((cell.wanted_ms, cell.qos), []).append(cell)
    return {key: sorted(cells, key=lambda c: c.delay_pb_ms) for key, cells in sorted(groups.items()) if len(cells) > 1}


def distributions(run: MeasuredRuns) -> Groups:
    """Return, by the links' delays and QoS, the cells whose delays vary in more than one way."""
    groups: dict[tuple[str, int], list[MeasuredDelayCell]] = {}
    for cell in _known(run):
        if cell.network in PUBLISHED_DISTRIBUTIONS:
            groups.setdefault((cell.pair, cell.qos), []).append(cell)
    return {key: cells for key, cells in groups.items() if len(cells) > 1}


def _known(run: MeasuredRuns) -> list[MeasuredDelayCell]:
    return [c for c in run.cells.values() if isinstance(c, MeasuredDelayCell) and c.valid and c.made_ms]


def _longest_at_qos_2(run: MeasuredRuns) -> list[MeasuredDelayCell]:
    """Return the cell with the longest delay, where the paper has the largest latency: not the largest one found."""
    return symmetrical(run, 2)[-1:]


def _low_qos(fits: bool, run: MeasuredRuns) -> list[MeasuredDelayCell]:
    """Return the symmetrical cells at QoS 0 and 1 whose round trip fits in the period, or does not."""
    return [
        cell
        for qos in (0, 1)
        for cell in symmetrical(run, qos)
        if (2 * (cell.made_ms or 0) < (cell.interval_ms or 0)) is fits
    ]


def _grows(run: MeasuredRuns) -> Verdict:
    """Judge by the line through all delays, on scales of the logarithm, from the shortest delay to the longest."""
    growth = {
        f"QoS {qos}: packets of the longest delay over those of the shortest": over_runs(factors)
        for qos in QOS
        if None not in (factors := [_growth(one, qos) for one in run.runs])
    }
    lines = [Line(what, factor) for what, factor in growth.items() if factor]
    if not lines:
        return not_run(f"Needs segments at {FEWEST_DELAYS} delays.")
    reason = f"By a factor {', '.join(f'{line.value.estimate:.2f}' for line in lines)} by QoS."
    return kept(lines, 1 + MATTERS, math.inf, reason)


def _growth(run: MeasuredRuns, qos: int) -> float | None:
    """Return how many times the packets of the shortest delay the longest has; None of fewer than FEWEST_DELAYS."""
    cells = [cell for cell in symmetrical(run, qos) if cell.packets_per_segment]
    if len(cells) < FEWEST_DELAYS:
        return None
    delays, packets = (np.log([getattr(cell, name) for cell in cells]) for name in ("made_ms", "packets_per_segment"))
    return float(np.exp(np.polyfit(delays, packets, 1)[0] * np.ptp(delays)))


def _segment_size(run: MeasuredRuns) -> Verdict:
    sizes = [(size, str(cell)) for cell in usable(run) if (size := cell.largest_segment_bytes)]
    if not sizes:
        return not_run("No segments were counted in this run.")
    largest, cell = max(sizes)
    each = [max((c.largest_segment_bytes or 0 for c in usable(one)), default=0) for one in run.runs]
    wanted = published()["segment-size"]
    near = (over_runs(each) or UNKNOWN).p_values(wanted / NEAR, wanted * NEAR)
    line = Line(cell, Interval(largest), f"about {wanted:g}", "bytes")
    return stated([near], f"The largest segment held {largest:.0f} bytes.", [line])


def _by_qos(run: MeasuredRuns) -> Verdict:
    shares = _most_over_least(run)
    if not shares:
        return not_run("No delay was measured at all three qualities of service.")
    lines = [Line(f"{delay:g} ms: most over least", Interval(share), "about 1") for delay, share in shares.items()]
    middle = geometric_mean(shares.values())
    reason = f"Between the qualities of service it differs by a factor {middle:.2f} (geometric mean over the delays)."
    by_run = [_most_over_least(one).values() for one in run.runs]
    factor = over_runs([geometric_mean(of_run) if of_run else None for of_run in by_run]) or UNKNOWN
    return stated([factor.p_values(0, 1 + MATTERS)], reason, lines)


def _most_over_least(run: MeasuredRuns) -> dict[float, float]:
    """Return, by delay, how many times the QoS with the most packets a segment has those of the one with the least."""
    carried: dict[float, list[float]] = {}
    for cell in (c for qos in QOS for c in symmetrical(run, qos)):
        if cell.packets_per_segment is not None:
            carried.setdefault(cell.wanted_ms, []).append(cell.packets_per_segment)
    return {delay: max(means) / min(means) for delay, means in sorted(carried.items()) if len(means) == len(QOS)}


def _like(groups_of: Callable[[MeasuredRuns], Groups], missing: str, run: MeasuredRuns) -> Verdict:
    """Compare the cells of each group with their mean."""
    lines = []
    for cells in groups_of(run).values():
        middle = fmean(cell.interval("ratio").estimate for cell in cells)
        lines += [
            Line(f"{cell}, over the mean of its group", cell.interval("ratio").over(middle), "about 1")
            for cell in cells
        ]
    if not lines:
        return not_run(f"No {missing}.")
    worst = max(lines, key=lambda line: abs(line.value.estimate - 1))
    reason = f"The cells differ from their group's mean by {abs(worst.value.estimate - 1):.0%} at most ({worst.what})."
    return kept(lines, 1 - ALIKE, 1 + ALIKE, f"{reason} Less than {ALIKE:.0%} counts as no matter.")
