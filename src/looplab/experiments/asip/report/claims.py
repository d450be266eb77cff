"""What the source claims, as questions that stored runs answer.

Claims that compare two sides are tested with one figure a run and side: the geometric mean over the cells that both
sides have. "Alike" and "hardly" mean: the whole interval lies within a factor 1.25.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import geometric_mean

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import MeasuredAsip, published, unfitted
from looplab.experiments.asip.report.published import BOUND_MS, FLOOR_CHARACTERS, FLOOR_MS, LATENCY_MS, THROUGHPUT_HZ
from looplab.report.cell import MeasuredCell
from looplab.report.claims import NEAR, Answer, every, means
from looplab.report.finding import Finding, Line, asked, exact
from looplab.report.rules import alike, directed
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import compare, over_runs
from looplab.report.verdicts import FIDELITIES, NO_RUN, UNDECIDED, Claim, Rule, Verdicts

# "Alike", "hardly depends": within a factor of 1 plus this share.
ALIKE = 0.25
# "Very close to the capacity": at least this share of it.
CLOSE = 0.9
BAUD = 57_600
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
    tracked = (
        (
            "java-tracks-more",
            "Java clients outperform Python clients",
            _with_slips(_compared(TRACKED, 0, languages, faster)),
        ),
        ("serial-tracks-more", "Serial carries more than TCP and MQTT", _compared(TRACKED, 1, to_serial, more)),
        ("tcp-tracks-like-mqtt", "TCP and MQTT carry about as much", _compared(TRACKED, 1, over_mqtt, over)),
        (
            "near-capacity",
            "Serial comes very close to the capacity of the wire",
            _over_serial("tracked_share", "wire's limit"),
        ),
        ("processor-limits", "The client's processor limits serial", _over_serial("processor_share", "processor")),
    )
    latency = (
        ("language-hardly", "Latency hardly depends on the language", _compared(LATENCY, 0, languages, java)),
        ("channel-hardly", "Latency hardly depends on the channel", _compared(LATENCY, 1, from_serial, networks)),
        ("below-15-ms", "Latency stays below 15 ms", _below_bound),
    )
    return [
        *(asked(name, title, THROUGHPUT, _on_time(answer)) for name, title, answer in tracked),
        *(asked(name, title, NAME, _on_time(answer)) for name, title, answer in latency),
        asked("floor", "The wire alone takes about 6.7 ms", NAME, _floor),
    ]


def add_causes(runs: Mapping[str, Runs], verdicts: Verdicts) -> None:
    """Put beside the claims on latency what TCP_NODELAY changes over TCP and MQTT by more than ALIKE.

    Each cell counts by how much longer than serial it took: chip and reports of the board are in both.
    """
    both = [run for fidelity in FIDELITIES if (run := runs.get(fidelity, {}).get(NAME)) is not None]
    if len(both) < len(FIDELITIES):
        return
    what = (("latency.avg", "On the client's clock"), ("edge_latency.avg", "From edge to edge"))
    sentences = [
        f"{clock}: {'; '.join(cells)}. With it off, a small packet waits until the last one is confirmed, up to 40 ms."
        for figure, clock in what
        if (cells := _slowed(figure, *both))
    ]
    for claim, answers in verdicts:
        if claim.name in ("channel-hardly", "below-15-ms"):
            answers[FIDELITIES[0]].notes += sentences


def _slowed(figure: str, without: Measured, with_it: Measured) -> list[str]:
    """Return in words each cell that takes longer over serial's time without TCP_NODELAY than with it."""
    off, on = _over_serial_ms(figure, without), _over_serial_ms(figure, with_it)
    return [
        f"{cell} takes {off[cell][0]:.1f} ms more than serial, "
        f"{round(more, 1) + 0:.1f} ms with TCP_NODELAY on (corrected)"
        for cell, (more, mean_ms) in on.items()
        if cell in off and off[cell][0] - more > ALIKE * mean_ms
    ]


def _over_serial_ms(figure: str, run: Measured) -> dict[str, tuple[float, float]]:
    """Return by cell, all parts on one machine, how much longer than serial its mean is, and the mean."""
    means_ms = {cell.key: cell.interval(figure).estimate / 1000 for cell in unfitted(run) if cell.placement == "one"}
    serial_ms = {language: mean for (language, transport, _), mean in means_ms.items() if transport == "serial"}
    return {
        f"{language} over {transport}": (mean - serial_ms[language], mean)
        for (language, transport, _), mean in means_ms.items()
        if transport != "serial" and language in serial_ms
    }


def _alike(what: str) -> Callable[[float], Rule]:
    return lambda _share: alike(f"The {what}", ALIKE)


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
        ratio = over_runs(_ratios(before, after)) or exact(math.nan)
        lines = [Line("all cells together", ratio, f"{printed:.2f}")]
        for pair in pairs:
            one = over_runs(_ratios(*_sides([pair], figure))) or exact(math.nan)
            lines.append(Line(_pair_text(pair), one, ""))
        if (comparison := compare(before, after)) is not None:
            return Finding(UNDECIDED, "", tested=comparison, rule=rule(printed - 1), lines=lines)
        reason = f"The ratio is {ratio.estimate:.2f}, published {printed:.2f}."
        if not all(value > 0 for value in (*before, *after)):
            reason = "At least one run has nothing to compare: it tracked no frequency, or lacks a figure."
        return Finding(UNDECIDED, reason, lines=lines)

    return answer


def _with_slips(answer: Answer) -> Answer:
    """Return `answer` with the printed figures beside it that contradict "Java outperforms Python in all tests"."""

    def shown(run: Measured) -> Finding:
        finding = answer(run)
        slips = (f"{where} {java:g} against {python:g} Hz" for where, java, python in published.python_ahead())
        finding.notes.append(f"A slip: the source writes “in all tests”. It prints for Java: {'; '.join(slips)}.")
        return finding

    return shown


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


def _ratios(before: Sequence[float], after: Sequence[float]) -> list[float | None]:
    return [b / a if a > 0 else None for a, b in zip(before, after, strict=True)]


def _pair_text(pair: Pair) -> str:
    """Return two cells in words: "java over python, tcp, one"."""
    keys = list(zip(pair[0].key, pair[1].key, strict=True))
    return ", ".join([*(f"{b} over {a}" for a, b in keys if a != b), *(a for a, b in keys if a == b)])


def _printed(cell: MeasuredAsip) -> str:
    measure, unit = (LATENCY_MS, "ms") if "latency" in cell.columns else (THROUGHPUT_HZ, "Hz")
    value = published.value(measure, *cell.key)
    return f"{value:g} {unit}" if value else ""


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


def _below_bound(run: Measured) -> Finding:
    def answered(run: Measured) -> list[MeasuredAsip]:
        return [cell for cell in unfitted(run) if cell.latency_us["latency"].size]

    below, missing = f"below {BOUND_MS:g} ms", "no valid cell with an answer"
    finding = every(LATENCY, 0, BOUND_MS * 1000, below, answered, missing, printed=_printed, unit="us")(run)
    means_ms = published.figures().query("measure == @LATENCY_MS")["value"]
    above = means_ms[means_ms > BOUND_MS]
    finding.notes = [f"Of the published means {len(above)} are above {BOUND_MS:g} ms, up to {max(above):g} ms."]
    return finding


def _floor(run: Measured) -> Finding:
    def counted(run: Measured) -> list[MeasuredAsip]:
        return [cell for cell in unfitted(run) if cell.figure("wire_us")]

    near, floor_us = f"about {FLOOR_MS:g} ms", FLOOR_MS * 1000
    missing = "no cell whose bytes were counted at the board"
    rule = every(
        "wire_us", floor_us / NEAR, floor_us * NEAR, near, counted, missing, printed=lambda _cell: near, unit="us"
    )
    finding = rule(run)
    quoted_ms = FLOOR_CHARACTERS * 10 / BAUD * 1000
    tests = [(size, cell.figure("wire_us") or 0.0) for cell in counted(run) if (size := cell.figure("test_bytes"))]
    finding.notes = [f"A test puts {size:.0f} bytes on the wire, {us / 1000:.2f} ms." for size, us in tests[:1]]
    finding.notes.append(
        f"{FLOOR_CHARACTERS} characters of 10 bits take {quoted_ms:.2f} ms at {BAUD} baud; {FLOOR_MS:g} ms would be 12 "
        "bits a character."
    )
    return finding
