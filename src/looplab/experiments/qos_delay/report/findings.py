"""What the paper found, as questions that a stored run answers: reproduced, not reproduced, or undecided.

A ratio counts as "about n" where it is within a factor sqrt(2) of n: nearer to n than to the next published
step (1, 2, 4 end-to-end delays), on the scale on which ratios are compared.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from looplab.experiments.qos_delay import NAME
from looplab.experiments.qos_delay.report.cell import DelayCell
from looplab.report.finding import Finding, Line, asked, exact, within
from looplab.report.printed import printed
from looplab.report.samples import Measured
from looplab.report.statistics import SIGNIFICANCE, Interval
from looplab.report.verdicts import (
    NO_RUN,
    NOT_REPRODUCED,
    REPRODUCED,
    SEED,
    UNDECIDED,
    Claim,
    Verdicts,
)

NEAR = math.sqrt(2)
QOS = (0, 1, 2)
# "Hardly depends", "does not matter": less than this share.
MATTERS = 0.25
PLACE_MATTERS = 0.20
# Fewer delays than this show no growth: the permutation test could not reach 5 %.
FEWEST_DELAYS = 4
PERMUTATIONS = 5000


@cache
def published() -> dict[str, float]:
    """Return the figures that the paper's text gives, by finding."""
    return {line["finding"]: float(line["published"]) for line in printed(__file__, "qos_delay.csv")}


def claims() -> list[Claim]:
    """Return the findings in the order of the paper."""
    return [
        asked(
            "one-way-when-short",
            "QoS 0 and 1 take one end-to-end delay where the round trip fits in the period",
            NAME,
            _one_way,
        ),
        asked("round-trip-beyond", "QoS 0 and 1 take about a whole round trip beyond", NAME, _round_trip),
        asked("qos-2-average", "QoS 2 takes at least four end-to-end delays on average", NAME, _qos_2_average),
        asked("qos-2-most", "QoS 2 takes up to more than seven end-to-end delays", NAME, _qos_2_most),
        asked("aggregation-grows", "The longer the delay, the more MQTT packets one TCP segment carries", NAME, _grows),
        asked("segment-size", "The largest segments hold about 600 bytes", NAME, _segment_size),
        asked("aggregation-qos", "How many packets a segment carries hardly depends on QoS", NAME, _by_qos),
        asked("place", "At the same end-to-end delay it does not matter where on the path the broker is", NAME, _place),
    ]


def delay_cells(run: Measured) -> list[DelayCell]:
    return [cell for cell in run.cells.values() if isinstance(cell, DelayCell)]


def usable(run: Measured) -> list[DelayCell]:
    """Return the valid cells whose delay is known."""
    return [cell for cell in delay_cells(run) if cell.valid and cell.made_ms > 0]


def symmetrical(run: Measured, qos: int) -> list[DelayCell]:
    """Return the usable cells with both links alike, by growing delay."""
    return sorted((c for c in usable(run) if c.symmetrical and c.qos == qos), key=lambda c: c.end_to_end_ms)


def places(run: Measured) -> dict[tuple[float, int], list[DelayCell]]:
    """Return, by end-to-end delay and QoS, the usable cells with the broker at more than one place."""
    groups: dict[tuple[float, int], list[DelayCell]] = {}
    for cell in usable(run):
        groups.setdefault((cell.end_to_end_ms, cell.qos), []).append(cell)
    return {key: sorted(cells, key=lambda c: c.delay_pb_ms) for key, cells in sorted(groups.items()) if len(cells) > 1}


def add_causes(runs: Mapping[str, Measured], verdicts: Verdicts) -> None:
    """Where the corrected run shows another cause, put it beside the finding."""
    if not {"thesis", "corrected"} <= runs.keys():
        return
    findings = {claim.name: found for claim, found in verdicts}
    for name in ("round-trip-beyond", "aggregation-grows"):
        found = findings[name]
        if found["thesis"].outcome == REPRODUCED and found["corrected"].outcome == NOT_REPRODUCED:
            found["thesis"].beside.append(
                "With TCP_NODELAY on (corrected) it is gone: not the delay itself, but Nagle's algorithm, which "
                "holds a small packet back until the one before it was acknowledged, makes it."
            )
    corrected = {cell.key: cell for cell in usable(runs["corrected"])}
    both = [(c, corrected[c.key]) for c in symmetrical(runs["thesis"], 2) if c.key in corrected]
    if both:
        before, after = (float(np.mean([pair[k].ratio.estimate for pair in both])) for k in (0, 1))
        findings["qos-2-average"]["thesis"].beside.append(
            f"With TCP_NODELAY on, QoS 2 takes {after:.2f} end-to-end delays on average instead of {before:.2f}."
        )


def _one_way(run: Measured) -> Finding:
    cells = [c for qos in (0, 1) for c in symmetrical(run, qos) if 2 * c.made_ms < c.interval_ms]
    return _about(cells, published()["one-way-when-short"], "no symmetrical cell whose round trip is below the period")


def _round_trip(run: Measured) -> Finding:
    cells = [c for qos in (0, 1) for c in symmetrical(run, qos) if 2 * c.made_ms >= c.interval_ms]
    return _about(cells, published()["round-trip-beyond"], "no symmetrical cell whose round trip is above the period")


def _about(cells: Sequence[DelayCell], wanted: float, missing: str) -> Finding:
    if not cells:
        return Finding(NO_RUN, f"The run has {missing}.")
    lines = [Line(str(c), c.ratio, f"{wanted:g}") for c in cells]
    inside = [within(c.ratio, wanted / NEAR, wanted * NEAR) for c in cells]
    if all(x is True for x in inside):
        return Finding(REPRODUCED, f"Every cell is within a factor 1.41 of {wanted:g}.", lines=lines)
    out = [str(c) for c, x in zip(cells, inside, strict=True) if x is False]
    if out:
        named = ", ".join(out[:3]) + (" and others" if len(out) > 3 else "")
        reason = f"{len(out)} of {len(cells)} cells lie more than a factor 1.41 from {wanted:g}: {named}."
        return Finding(NOT_REPRODUCED, reason, lines=lines)
    return Finding(UNDECIDED, f"The intervals hold both about {wanted:g} and something else.", lines=lines)


def _qos_2_average(run: Measured) -> Finding:
    cells = symmetrical(run, 2)
    if not cells:
        return Finding(NO_RUN, "The run has no symmetrical cell at QoS 2.")
    wanted = published()["qos-2-average"]
    known = all(c.ratio.known for c in cells)
    bounds = [np.mean([getattr(c.ratio, side) for c in cells]) for side in ("estimate", "low", "high")]
    # Averaging the bounds treats the cells' errors as if they went together: too wide rather than too narrow.
    mean = Interval(*map(float, bounds)) if known else Interval(float(bounds[0]), math.nan, math.nan)
    lines = [Line(f"mean of {len(cells)} cells", mean, f"at least {wanted:g}")]
    lines += [Line(str(c), c.ratio, "") for c in cells]
    return _at_least(mean, wanted, lines, "on average")


def _qos_2_most(run: Measured) -> Finding:
    cells = [c for c in usable(run) if c.qos == 2]
    if not cells:
        return Finding(NO_RUN, "The run has no valid cell at QoS 2.")
    most = max(cells, key=lambda c: c.ratio.estimate)
    wanted = published()["qos-2-most"]
    return _at_least(most.ratio, wanted, [Line(str(most), most.ratio, f"above {wanted:g}")], "at most")


def _at_least(value: Interval, wanted: float, lines: Sequence[Line], how: str) -> Finding:
    said = f"{value.estimate:.2f} end-to-end delays {how}, published are {wanted:g}."
    inside = within(value, wanted, math.inf)
    if inside is None:
        return Finding(UNDECIDED, f"{said} The interval holds both.", lines=lines)
    return Finding(REPRODUCED if inside else NOT_REPRODUCED, said, lines=lines)


def _grows(run: Measured) -> Finding:
    lines, steps, verdicts = [], [], []
    rng = np.random.default_rng(SEED)
    for qos in QOS:
        cells = [c for c in symmetrical(run, qos) if c.packets_per_segment is not None]
        ends = [cells[0], cells[-1]] if len(cells) > 1 else cells
        lines += [Line(str(c), exact(c.packets_per_segment or math.nan), "", "packets") for c in ends]
        if len(cells) < FEWEST_DELAYS:
            continue
        values = np.array([c.packets_per_segment for c in cells], dtype=np.float64)
        rho, p = _rank_correlation(values, rng)
        growth = values[-1] / values[0] - 1
        steps.append(f"QoS {qos}: {values[0]:.2f} to {values[-1]:.2f} (rank correlation {rho:.2f}, p {_p(p)})")
        verdicts.append(rho > 0 and p < SIGNIFICANCE and growth > MATTERS)
    if not verdicts:
        return Finding(UNDECIDED if lines else NO_RUN, f"Needs segments at {FEWEST_DELAYS} delays.", lines=lines)
    outcome = REPRODUCED if all(verdicts) else NOT_REPRODUCED if not any(verdicts) else UNDECIDED
    return Finding(outcome, "; ".join(steps) + ".", lines=lines)


def _rank_correlation(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Spearman's rho of values in the order of their delay, and its one-sided permutation p."""
    # Ties get their mean rank; values that are all alike have no order at all.
    ranks = np.array([np.mean(np.flatnonzero(np.sort(values) == value)) for value in values])
    spread = np.linalg.norm(ranks - ranks.mean())
    if spread == 0:
        return 0.0, 1.0
    centred = np.arange(values.size) - (values.size - 1) / 2
    shuffled = rng.permuted(np.broadcast_to(ranks, (PERMUTATIONS, ranks.size)), axis=1)
    scale = np.linalg.norm(centred) * spread
    rho = float(ranks @ centred / scale)
    drawn = (shuffled @ centred) / scale
    return rho, float((1 + np.sum(drawn >= rho - 1e-12)) / (1 + PERMUTATIONS))


def _segment_size(run: Measured) -> Finding:
    sizes = [(c.largest_segment_bytes, c) for c in delay_cells(run) if c.valid and c.largest_segment_bytes]
    if not sizes:
        return Finding(NO_RUN, "No segments were counted in this run.")
    size, cell = max(sizes, key=lambda pair: pair[0] or 0)
    wanted = published()["segment-size"]
    near = within(exact(size or math.nan), wanted / NEAR, wanted * NEAR)
    return Finding(
        REPRODUCED if near else NOT_REPRODUCED,
        f"The largest segment held {size:.0f} bytes.",
        lines=[Line(str(cell), exact(size or math.nan), f"about {wanted:g}", "bytes")],
    )


def _by_qos(run: Measured) -> Finding:
    carried: dict[float, list[float]] = {}
    for cell in (c for qos in QOS for c in symmetrical(run, qos)):
        if cell.packets_per_segment is not None:
            carried.setdefault(cell.end_to_end_ms, []).append(cell.packets_per_segment)
    shares = {delay: max(found) / min(found) for delay, found in sorted(carried.items()) if len(found) == len(QOS)}
    lines = [Line(f"{delay:g} ms: most over least", exact(share), "about 1") for delay, share in shares.items()]
    if not shares:
        return Finding(NO_RUN, "No delay was measured at all three qualities of service.")
    middle = float(np.exp(np.mean(np.log([*shares.values()]))))
    said = f"Between the qualities of service it differs by a factor {middle:.2f} (geometric mean over the delays)."
    return Finding(REPRODUCED if middle <= 1 + MATTERS else NOT_REPRODUCED, said, lines=lines)


def _place(run: Measured) -> Finding:
    compared = places(run)
    if not compared:
        return Finding(NO_RUN, "No end-to-end delay was measured with the broker at more than one place.")
    lines, verdicts, worst = [], [], ("", 0.0)
    for (delay, qos), cells in compared.items():
        middle = float(np.mean([c.ratio.estimate for c in cells]))
        for c in cells:
            share = c.ratio.over(middle)
            lines.append(Line(f"{c}, over the mean of its group", share, "about 1"))
            verdicts.append(within(share, 1 - PLACE_MATTERS, 1 + PLACE_MATTERS))
            if abs(share.estimate - 1) > abs(worst[1]):
                worst = (f"{delay:g} ms, QoS {qos}", share.estimate - 1)
    outcome = REPRODUCED if all(v is True for v in verdicts) else NOT_REPRODUCED if False in verdicts else UNDECIDED
    said = f"The places differ from their group's mean by {abs(worst[1]):.0%} at most ({worst[0]})."
    return Finding(outcome, f"{said} Less than {PLACE_MATTERS:.0%} counts as no matter.", lines=lines)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
