"""What the source claims, as questions that stored runs answer.

Claims that compare two sides are tested with one figure a run and side: the geometric mean over the cells that both
sides have. "Alike" and "hardly" mean: the whole interval lies within a factor 1.25.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import geometric_mean

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import MeasuredAsip, published, unfitted
from looplab.experiments.asip.report.published import BOUND_MS, FLOOR_MS, LATENCY_MS, THROUGHPUT_HZ
from looplab.report.cell import MeasuredCell
from looplab.report.claims import NEAR, Answer, every, means
from looplab.report.finding import Finding, Line, asked, exact
from looplab.report.rules import alike, directed
from looplab.report.samples import Measured
from looplab.report.statistics import Interval, compare, over_runs
from looplab.report.verdicts import NO_RUN, UNDECIDED, Claim, Rule

# "Alike", "hardly depends": within a factor of 1 plus this share.
ALIKE = 0.25
# "Very close to the capacity": at least this share of it.
CLOSE = 0.9
TRACKED, LATENCY = "tracked_hz", "latency.avg"
Pair = tuple[MeasuredAsip, MeasuredAsip]


def claims() -> list[Claim]:
    """Return the claims in the order of the source."""
    languages, over_mqtt = [("python", "java")], [("tcp", "mqtt")]
    to_serial, from_serial = [("tcp", "serial"), ("mqtt", "serial")], [("serial", "tcp"), ("serial", "mqtt")]
    faster, more = (partial(directed, f"The frequency tracked {where}", +1) for where in ("by Java", "over serial"))
    over, java, networks = map(
        _alike, ("frequency tracked over MQTT", "latency from Java", "latency over TCP and MQTT")
    )
    near, limited = _over_serial("tracked_share", "wire's limit"), _over_serial("processor_share", "processor")
    below = _every(LATENCY, 0, BOUND_MS * 1000, f"below {BOUND_MS:g} ms", "an answer", _printed)
    about = f"about {FLOOR_MS:g} ms"
    floor = _every("wire_us", FLOOR_MS * 1000 / NEAR, FLOOR_MS * 1000 * NEAR, about, "bytes counted", lambda _: about)
    tracked = (
        ("java-tracks-more", "Java clients outperform Python clients", _compared(TRACKED, 0, languages, faster)),
        ("serial-tracks-more", "Serial carries more than TCP and MQTT", _compared(TRACKED, 1, to_serial, more)),
        ("tcp-tracks-like-mqtt", "TCP and MQTT carry about as much", _compared(TRACKED, 1, over_mqtt, over)),
        ("near-capacity", "Serial comes very close to the capacity of the wire", near),
        ("processor-limits", "The client's processor limits serial", limited),
    )
    latency = (
        ("language-hardly", "Latency hardly depends on the language", _compared(LATENCY, 0, languages, java)),
        ("channel-hardly", "Latency hardly depends on the channel", _compared(LATENCY, 1, from_serial, networks)),
        ("below-15-ms", "Latency stays below 15 ms", below),
    )
    return [
        *(asked(name, title, THROUGHPUT, _on_time(answer)) for name, title, answer in tracked),
        *(asked(name, title, NAME, _on_time(answer)) for name, title, answer in latency),
        asked("floor", "The wire alone takes about 6.7 ms", NAME, floor),
    ]


def _on_time(answer: Answer) -> Answer:
    """Return `answer`, and name beside it each run whose simulated board was behind real time."""

    def shown(run: Measured) -> Finding:
        finding = answer(run)
        clocks = [(one.run.run_id, one.run.treatment("board clock")) for one in run.runs]
        finding.notes += [
            f"{run_id}: the simulated board was {clock['found']}; its latencies hold that."
            for run_id, clock in clocks
            if clock is not None and not clock["verified"]
        ]
        return finding

    return shown


def _alike(what: str) -> Callable[[float], Rule]:
    return lambda _share: alike(f"The {what}", ALIKE)


def _every(
    figure: str, low_us: float, high_us: float, wanted: str, has: str, printed: Callable[[MeasuredAsip], str]
) -> Answer:
    """Return the rule that a time of every cell that has it is within these bounds."""

    def known(run: Measured) -> list[MeasuredAsip]:
        return [cell for cell in unfitted(run) if not math.isnan(cell.known(figure).estimate)]

    return every(figure, low_us, high_us, wanted, known, f"no valid cell with {has}", printed=printed, unit="us")


def _over_serial(share: str, limit: str) -> Answer:
    """Return the rule that a share of each cell over serial is nearly the `limit`."""

    def serial(run: Measured) -> list[MeasuredAsip]:
        return [cell for cell in unfitted(run) if cell.transport == "serial" and cell.figure(share) is not None]

    near, missing = f"at {CLOSE:.0%} of the {limit} or above", "no valid cell over serial that has the figure"
    return every(share, CLOSE, math.inf, near, serial, missing, printed=_printed)


def _compared(figure: str, at: int, words: Sequence[tuple[str, str]], rule: Callable[[float], Rule]) -> Answer:
    """Return what compares cells whose keys differ at place `at` alone, by `words`; `rule` takes the change printed."""
    measure, axis = LATENCY_MS if figure == LATENCY else THROUGHPUT_HZ, ("language", "transport")[at]
    printed = geometric_mean(published.ratio(measure, axis, *pair) for pair in words)

    def answer(run: Measured) -> Finding:
        pairs = [pair for one in words for pair in _pairs(run, at, one)]
        if not pairs:
            return Finding(NO_RUN, "The run lacks valid cells on one of the two sides.")
        before, after = _sides(pairs, figure)
        ratio = _ratio(before, after)
        lines = [Line("all cells together", ratio, f"{printed:.2f}")]
        lines += [Line(_pair_text(pair), _ratio(*_sides([pair], figure)), "") for pair in pairs]
        if (comparison := compare(before, after)) is not None:
            return Finding(UNDECIDED, "", tested=comparison, rule=rule(printed - 1), lines=lines)
        reason = f"The ratio is {ratio.estimate:.2f}, published {printed:.2f}."
        if not all(value > 0 for value in (*before, *after)):
            reason = "At least one run has nothing to compare: it tracked no frequency, or lacks a figure."
        return Finding(UNDECIDED, reason, lines=lines)

    return answer


def _pairs(run: Measured, at: int, words: tuple[str, str]) -> list[Pair]:
    """Return the pairs of cells, valid in every run, whose keys differ at place `at` alone, by `words`."""
    by_key = {c.key: c for c in unfitted(run) if all(c.key in one.cells and one.cells[c.key].valid for one in run.runs)}
    pairs = [(cell, by_key.get((*key[:at], words[1], *key[at + 1 :]))) for key, cell in by_key.items()]
    return [(cell, other) for cell, other in pairs if cell.key[at] == words[0] and other is not None]


def _sides(pairs: Sequence[Pair], figure: str) -> tuple[list[float], list[float]]:
    """Return the figure of each run on both sides, its geometric mean over the pairs."""

    def by_run(cell: MeasuredCell) -> dict[int, float]:
        return {at: one.figure(figure) or 0.0 for at, one in enumerate(cell.runs or (cell,))}

    first, second = (list(means([pair[side] for pair in pairs], by_run).values()) for side in (0, 1))
    return first, second


def _ratio(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return the mean ratio of both sides over the runs."""
    return over_runs([b / a if a > 0 else None for a, b in zip(before, after, strict=True)]) or exact(math.nan)


def _pair_text(pair: Pair) -> str:
    """Return two cells in words: "java over python, tcp, one"."""
    keys = list(zip(pair[0].key, pair[1].key, strict=True))
    return ", ".join([*(f"{b} over {a}" for a, b in keys if a != b), *(a for a, b in keys if a == b)])


def _printed(cell: MeasuredAsip) -> str:
    measure, unit = (LATENCY_MS, "ms") if "latency" in cell.columns else (THROUGHPUT_HZ, "Hz")
    value = published.value(measure, *cell.key)
    return f"{value:g} {unit}" if value else ""
