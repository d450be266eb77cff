"""What the source claims, as rows that stored runs answer.

Claims that compare two sides are tested with one figure a run and side: the geometric mean over the cells that both
sides have. "Alike" and "hardly" mean: the whole interval lies within a factor 1.25.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import geometric_mean

from looplab.experiments.asip import EXPERIMENT
from looplab.experiments.asip.parameters import TRANSPORTS
from looplab.experiments.asip.report import (
    BOUND_MS,
    FLOOR_MS,
    LATENCY_MS,
    THROUGHPUT_HZ,
    MeasuredAsip,
    published_ratio,
    published_value,
    usable,
)
from looplab.report.cell import MeasuredCell
from looplab.report.claims import Row, rows
from looplab.report.rules import NEAR, Answer, alike, decided, directed, every, means
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import UNKNOWN, Interval, compare, over_runs
from looplab.report.verdicts import Line, Printed, Verdict, not_run

# "Alike", "hardly depends": within a factor of 1 plus this share.
ALIKE = 0.25
# "Very close to the capacity": at least this share of it.
CLOSE = 0.9
TRACKED, LATENCY = "tracked_hz", "latency.avg"
LANGUAGES = ("python", "java")
Pair = tuple[MeasuredAsip, MeasuredAsip]


def answers() -> dict[str, Answer]:
    """Return what answers each claim."""
    about = f"about {FLOOR_MS:g} ms"
    compared = {row.name: partial(_compared, row) for row in rows(EXPERIMENT) if row.within}
    return compared | {
        "near-capacity": _over_serial("tracked_share", "wire's limit"),
        "processor-limits": _over_serial("processor_share", "processor"),
        "below-15-ms": _every(LATENCY, 0, 1000 * BOUND_MS, f"below {BOUND_MS:g} ms", _printed),
        "floor": _every("wire_us", 1000 * FLOOR_MS / NEAR, 1000 * FLOOR_MS * NEAR, about, lambda _: about),
    }


def _every(
    figure: str,
    low: float,
    high: float,
    wanted: str,
    printed: Callable[[MeasuredAsip], str],
    unit: str = "us",
    transports: Sequence[str] = TRANSPORTS,
) -> Answer:
    """Return the rule that a figure of every cell that has it, over these transports, is within these bounds."""

    def known(run: MeasuredRuns) -> list[MeasuredAsip]:
        over = [cell for cell in usable(run) if cell.transport in transports]
        return [cell for cell in over if not math.isnan(cell.interval(figure).estimate)]

    missing = f"no valid cell over {' or '.join(transports)} that has {figure}"
    return every(figure, low, high, wanted, known, missing, printed=printed, unit=unit)


def _over_serial(share: str, limit: str) -> Answer:
    """Return the rule that a share of each cell over serial is nearly the `limit`."""
    return _every(share, CLOSE, math.inf, f"at {CLOSE:.0%} of the {limit} or above", _printed, "×", ["serial"])


def _compared(row: Row, run: MeasuredRuns) -> Verdict:
    """Compare a figure of cells whose keys differ by two words alone: `within` is "tcp, serial; mqtt, serial"."""
    words = [one.split(", ") for one in row.within.split("; ")]
    at = 0 if words[0][0] in LANGUAGES else 1
    measure, axis = LATENCY_MS if row.figure == LATENCY else THROUGHPUT_HZ, ("language", "transport")[at]
    printed = geometric_mean(published_ratio(measure, axis, before, after) for before, after in words)
    pairs = [pair for before, after in words for pair in _pairs(run, at, before, after)]
    if not pairs:
        return not_run("The run lacks valid cells on one of the two sides.")
    before, after = _figures(pairs, row.figure)
    ratio = _ratio(before, after)
    lines = [Line("all cells together", ratio, f"{printed:.2f}")]
    lines += [Line(_pair_text(pair), _ratio(*_figures([pair], row.figure))) for pair in pairs]
    comparison = compare(before, after)
    reason = f"The ratio is {ratio.estimate:.2f}, published {printed:.2f}."
    if not all(value > 0 for value in (*before, *after)):
        reason = "At least one run has nothing to compare: it tracked no frequency, or lacks a figure."
    rule = alike(row.what, ALIKE) if row.rule == "alike" else directed(row.what, +1, printed - 1)
    verdict = decided(comparison, rule) if comparison else Verdict(reason=reason)
    verdict.lines, verdict.share, verdict.published = lines, ratio.change, Printed(1.0, printed)
    return verdict


def _pairs(run: MeasuredRuns, at: int, before: str, after: str) -> list[Pair]:
    """Return the pairs of cells, valid in every run, whose keys differ at place `at` alone."""
    by_key = {c.key: c for c in usable(run) if all(c.key in one.cells and one.cells[c.key].valid for one in run.runs)}
    pairs = [(cell, by_key.get((*key[:at], after, *key[at + 1 :]))) for key, cell in by_key.items()]
    return [(cell, other) for cell, other in pairs if cell.key[at] == before and other is not None]


def _figures(pairs: Sequence[Pair], figure: str) -> tuple[list[float], list[float]]:
    """Return the figure of each run on both sides, its geometric mean over the pairs."""

    def by_run(cell: MeasuredCell) -> dict[int, float]:
        return {at: one.figure(figure) or 0.0 for at, one in enumerate(cell.runs or (cell,))}

    first, second = (list(means([pair[side] for pair in pairs], by_run).values()) for side in (0, 1))
    return first, second


def _ratio(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return the mean ratio of both sides over the runs."""
    return over_runs([b / a if a > 0 else None for a, b in zip(before, after, strict=True)]) or UNKNOWN


def _pair_text(pair: Pair) -> str:
    """Return two cells in words: "java over python, tcp, one"."""
    keys = list(zip(pair[0].key, pair[1].key, strict=True))
    return ", ".join([*(f"{b} over {a}" for a, b in keys if a != b), *(a for a, b in keys if a == b)])


def _printed(cell: MeasuredAsip) -> str:
    measure, unit = (LATENCY_MS, "ms") if "latency" in cell.columns else (THROUGHPUT_HZ, "Hz")
    value = published_value(measure, *cell.key)
    return f"{value:g} {unit}" if value else ""
