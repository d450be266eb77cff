"""What the source claims, as questions that stored runs answer.

Claims that compare two sides are tested with one figure a run and side: the geometric mean over the cells that both
sides have. "Alike" and "hardly" mean: the whole interval lies within a factor 1.25.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.cell import MeasuredAsip
from looplab.experiments.asip.report.published import BOUND_MS, FLOOR_CHARACTERS, FLOOR_MS, LATENCY_MS, THROUGHPUT_HZ
from looplab.report.cell import Key
from looplab.report.finding import Finding, Line, asked, exact, within
from looplab.report.rules import directed
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, SIGNIFICANCE, Comparison, Interval, compare, over_runs
from looplab.report.verdicts import (
    FEW_RUNS,
    FIDELITIES,
    NO_RUN,
    NOT_REPRODUCED,
    ONE_RUN,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Rule,
    Verdicts,
)

# "Alike", "hardly depends": within a factor of 1 plus this share.
ALIKE = 0.25
# "Very close to the capacity": at least this share of it.
CLOSE = 0.9
# "About 6.7 ms": within this factor.
NEAR = math.sqrt(2)
BAUD = 57_600
_NEEDED = f"A verdict needs {FEWEST_RUNS} runs."

# A figure of one cell of one run, and the pairs of cells that a claim compares.
Figure = Callable[[MeasuredAsip], float]
Pairs = Sequence[tuple[Key, Key]]


def claims() -> list[Claim]:
    """Return the claims in the order of the source."""
    return [
        asked("java-tracks-more", "Java clients outperform Python clients", THROUGHPUT, _java_tracks_more),
        asked("serial-tracks-more", "Serial carries more than TCP and MQTT", THROUGHPUT, _serial_tracks_more),
        asked("tcp-tracks-like-mqtt", "TCP and MQTT carry about as much", THROUGHPUT, _tcp_like_mqtt),
        asked("near-capacity", "Serial comes very close to the capacity of the wire", THROUGHPUT, _near_capacity),
        asked("language-hardly", "Latency hardly depends on the language", NAME, _language_hardly),
        asked("channel-hardly", "Latency hardly depends on the channel", NAME, _channel_hardly),
        asked("below-15-ms", "Latency stays below 15 ms", NAME, _below_bound),
        asked("floor", "The wire alone takes about 6.7 ms", NAME, _floor),
    ]


def add_causes(runs: Mapping[str, Runs], verdicts: Verdicts) -> None:
    """Put beside the claims on latency what TCP_NODELAY changes by more than ALIKE."""
    held = [found for fidelity in FIDELITIES if (found := runs.get(fidelity, {}).get(NAME)) is not None]
    if len(held) < len(FIDELITIES):
        return
    told = []
    off, on = map(_over_tcp, held)
    if off > (1 + ALIKE) * on:
        told.append(f"With TCP_NODELAY on (corrected), TCP takes {on:.1f} ms on average instead of {off:.1f} ms.")
    if edges := _edges_slowed(*held):
        told.append(
            f"From edge to edge, TCP_NODELAY on (corrected) against off: {'; '.join(edges)}. With it off, an order may "
            "wait until the next report confirms the last one: half a wave on each connection."
        )
    for claim, answers in verdicts:
        if claim.name in ("channel-hardly", "below-15-ms"):
            answers[FIDELITIES[0]].beside += told


def _edges_slowed(without: Measured, with_it: Measured) -> list[str]:
    """Return both mean latencies by the oscilloscope of each cell that TCP_NODELAY makes faster by more than ALIKE."""
    faster = {cell.key: cell.edge("avg") for cell in usable(with_it)}
    return [
        f"{cell} {faster[cell.key] / 1000:.1f} and {cell.edge('avg') / 1000:.1f} ms"
        for cell in usable(without)
        if cell.key in faster and cell.edge("avg") > (1 + ALIKE) * faster[cell.key]
    ]


def _over_tcp(run: Measured) -> float:
    """Return the mean latency over TCP in ms, all parts on one machine; NaN if it was not measured."""
    means = [cell.mean("latency") for cell in usable(run) if cell.key[1:] == ("tcp", "one")]
    return float(np.mean([mean.estimate / 1000 for mean in means if mean])) if any(means) else math.nan


def cells(run: Measured) -> list[MeasuredAsip]:
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredAsip)]


def usable(run: Measured) -> list[MeasuredAsip]:
    """Return the valid cells."""
    return [cell for cell in cells(run) if cell.valid]


def _java_tracks_more(run: Measured) -> Finding:
    share = published.ratio(THROUGHPUT_HZ, "language", "python", "java") - 1
    pairs = _pairs(run, 0, ("python", "java"))
    return _compared(run, pairs, _tracked, directed("The frequency tracked by Java", +1, share), share)


def _serial_tracks_more(run: Measured) -> Finding:
    pairs = [*_pairs(run, 1, ("tcp", "serial")), *_pairs(run, 1, ("mqtt", "serial"))]
    ratios = [published.ratio(THROUGHPUT_HZ, "transport", other, "serial") for other in ("tcp", "mqtt")]
    share = math.sqrt(math.prod(ratios)) - 1
    return _compared(run, pairs, _tracked, directed("The frequency tracked over serial", +1, share), share)


def _tcp_like_mqtt(run: Measured) -> Finding:
    share = published.ratio(THROUGHPUT_HZ, "transport", "tcp", "mqtt") - 1
    return _compared(run, _pairs(run, 1, ("tcp", "mqtt")), _tracked, _alike("The frequency tracked over MQTT"), share)


def _language_hardly(run: Measured) -> Finding:
    share = published.ratio(LATENCY_MS, "language", "python", "java") - 1
    return _compared(run, _pairs(run, 0, ("python", "java")), _latency, _alike("The latency from Java"), share)


def _channel_hardly(run: Measured) -> Finding:
    pairs = [*_pairs(run, 1, ("serial", "tcp")), *_pairs(run, 1, ("serial", "mqtt"))]
    ratios = [published.ratio(LATENCY_MS, "transport", "serial", other) for other in ("tcp", "mqtt")]
    share = math.sqrt(math.prod(ratios)) - 1
    return _compared(run, pairs, _latency, _alike("The latency over TCP and MQTT"), share)


def _tracked(cell: MeasuredAsip) -> float:
    return cell.tracked.estimate


def _latency(cell: MeasuredAsip) -> float:
    return cell.statistic("latency", "avg") or math.nan


def _pairs(run: Measured, at: int, words: tuple[str, str]) -> Pairs:
    """Return the pairs of valid cells of every run whose keys differ at place `at` alone, by `words`."""
    held = [{c.key for c in usable(one)} for one in run.runs]
    keys = [key for key in run.cells if all(key in one for one in held)]
    found = [(key, (*key[:at], words[1], *key[at + 1 :])) for key in keys if key[at] == words[0]]
    return [pair for pair in found if pair[1] in keys]


def _compared(run: Measured, pairs: Pairs, figure: Figure, rule: Rule, share: float) -> Finding:
    """Return the finding on the second cells of `pairs` against the first; `share` is the change published."""
    if not pairs:
        return Finding(NO_RUN, "The run lacks valid cells on one of the two sides.")
    lines = [Line(_pair_text(pair), _over(run, pair, figure), "") for pair in pairs]
    sides = [[_middle(one, [pair[side] for pair in pairs], figure) for one in run.runs] for side in (0, 1)]
    ratios = [after / before if before > 0 else math.nan for before, after in zip(*sides, strict=True)]
    lines.insert(0, Line("all cells together", over_runs(ratios) or exact(math.nan), f"{1 + share:.2f}"))
    if (few := _too_few(run)) is not None:
        reason = f"The ratio is {np.mean(ratios):.2f}, published {1 + share:.2f}."
        return Finding(few, f"{reason} {_NEEDED}", _lags(run), lines=lines)
    found = compare(*sides)
    if found is None:
        reason = "At least one run has nothing to compare: it tracked no frequency, or lacks a figure."
        return Finding(UNDECIDED, reason, lines=lines)
    return Finding(UNDECIDED, "", _lags(run), tested=found, rule=rule, lines=lines)


def _too_few(run: Measured) -> str | None:
    """Return the outcome of so few runs that no verdict can be given; None if there are enough."""
    runs = len(run.runs)
    return None if runs >= FEWEST_RUNS else ONE_RUN if runs == 1 else FEW_RUNS


def _lags(run: Measured) -> list[str]:
    """Return a sentence for each run whose simulated board was behind real time: its latencies hold that."""
    found = [(one.run, one.run.treatment("board clock")) for one in run.runs]
    return [
        f"{stored.run_id}: the simulated board was {clock['found']}; its latencies hold that."
        for stored, clock in found
        if clock is not None and not clock["verified"]
    ]


def _middle(run: Measured, keys: Sequence[Key], figure: Figure) -> float:
    """Return the geometric mean of a figure over cells of one run; 0 if one of them is 0."""
    values = [figure(cell) for key in keys if isinstance(cell := run.cells[key], MeasuredAsip)]
    return math.exp(float(np.mean(np.log(values)))) if min(values) > 0 else 0.0


def _over(run: Measured, pair: tuple[Key, Key], figure: Figure) -> Interval:
    before, after = ([_middle(one, [key], figure) for one in run.runs] for key in pair)
    ratios = [b / a if a > 0 else None for a, b in zip(before, after, strict=True)]
    return over_runs(ratios) or exact(math.nan)


def _pair_text(pair: tuple[Key, Key]) -> str:
    """Return two cells in words: "java over python, tcp, one"."""
    same = [a for a, b in zip(*pair, strict=True) if a == b]
    [(before, after)] = [(a, b) for a, b in zip(*pair, strict=True) if a != b]
    return ", ".join([f"{after} over {before}", *same])


def _alike(what: str) -> Rule:
    return partial(_judge_alike, what)


def _judge_alike(what: str, found: Comparison, p_value: float) -> tuple[str, str]:
    share, lowest = found.share, 1 / (1 + ALIKE) - 1
    if lowest <= share.low and share.high <= ALIKE:
        return REPRODUCED, f"{what} differs by {share.estimate:+.1%}; the whole interval is within a factor 1.25."
    if (share.low > ALIKE or share.high < lowest) and p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{what} differs by {share.estimate:+.1%}, beyond a factor 1.25."
    return (
        UNDECIDED,
        f"{what} differs by {share.estimate:+.1%}; the interval holds both less and more than a factor 1.25.",
    )


def _near_capacity(run: Measured) -> Finding:
    held = [c for c in usable(run) if c.transport == "serial" and not math.isnan(c.tracked_over_wire.estimate)]
    if not held:
        return Finding(NO_RUN, "The run has no valid cell over serial.")
    lines = []
    for cell in held:
        printed = published.value(THROUGHPUT_HZ, cell.language, "serial", "one")
        lines.append(Line(str(cell), cell.tracked_over_wire, f"{printed:g} Hz" if printed else ""))
    worst = min(held, key=lambda c: c.tracked_over_wire.estimate)
    reached = [within(c.tracked_over_wire, CLOSE, math.inf) for c in held]
    outcome = REPRODUCED if all(reached) else NOT_REPRODUCED if False in reached else UNDECIDED
    said = (
        f"The wire carries {worst.wire_limit_hz:.0f} Hz; {worst} tracks {worst.tracked.estimate:.0f} Hz, "
        f"{worst.tracked_over_wire.estimate:.0%} of it. {CLOSE:.0%} counts as very close."
    )
    return _judged(run, outcome, said, [], lines)


def _below_bound(run: Measured) -> Finding:
    means = [(cell, mean) for cell in usable(run) if (mean := cell.mean("latency")) is not None]
    if not means:
        return Finding(NO_RUN, "The run has no valid cell with an answer.")
    lines = []
    for cell, mean in means:
        printed = published.value(LATENCY_MS, *cell.key)
        lines.append(Line(str(cell), mean, f"{printed:g} ms" if printed else "", "us"))
    inside = [within(mean, 0, BOUND_MS * 1000) for _cell, mean in means]
    slowest, most = max(means, key=lambda pair: pair[1].estimate)
    outcome = REPRODUCED if all(inside) else NOT_REPRODUCED if False in inside else UNDECIDED
    said = f"The slowest cell, {slowest}, takes {most.estimate / 1000:.2f} ms on average."
    above = [f.value for f in published.figures() if f.measure == LATENCY_MS and f.value > BOUND_MS]
    beside = [f"Of the published means {len(above)} are above {BOUND_MS:g} ms themselves, up to {max(above):g} ms."]
    return _judged(run, outcome, said, beside, lines)


def _judged(run: Measured, outcome: str, said: str, beside: list[str], lines: Sequence[Line]) -> Finding:
    """Return the finding by `outcome`; without a verdict if the runs are too few."""
    few = _too_few(run)
    return Finding(few or outcome, f"{said} {_NEEDED}" if few else said, [*beside, *_lags(run)], lines=lines)


def _floor(run: Measured) -> Finding:
    held = [cell for cell in usable(run) if cell.wire_time_us > 0]
    if not held:
        return Finding(NO_RUN, "No bytes were counted at the board in this run.")
    lines = [
        Line(f"{cell}: {cell.wire_size:.0f} bytes", exact(cell.wire_time_us), f"about {FLOOR_MS:g} ms", "us")
        for cell in held
    ]
    middle = float(np.median([cell.wire_time_us for cell in held]))
    near = within(exact(middle), FLOOR_MS * 1000 / NEAR, FLOOR_MS * 1000 * NEAR)
    said = f"A test puts {np.median([c.wire_size for c in held]):.0f} bytes on the wire, {middle / 1000:.2f} ms of it."
    quoted_ms = FLOOR_CHARACTERS * 10 / BAUD * 1000
    beside = [
        f"{FLOOR_CHARACTERS} characters of 10 bits take {quoted_ms:.2f} ms at {BAUD} baud; {FLOOR_MS:g} ms would be "
        "12 bits a character.",
    ]
    return Finding(REPRODUCED if near else NOT_REPRODUCED, said, beside, lines=lines)
