"""What the source claims, as questions that stored runs answer.

Claims that compare two sides are tested with one figure a run and side: the geometric mean over the cells that both
sides have. "Alike" and "hardly" mean: the whole interval lies within a factor 1.25.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from looplab.report.statistics import Interval, compare, over_runs
from looplab.report.verdicts import FIDELITIES, NO_RUN, UNDECIDED, Claim, Rule, Verdicts

# "Alike", "hardly depends": within a factor of 1 plus this share.
ALIKE = 0.25
# "Very close to the capacity": at least this share of it.
CLOSE = 0.9
BAUD = 57_600
TRACKED, LATENCY = "tracked_hz", "latency.avg"
Pair = tuple[MeasuredAsip, MeasuredAsip]
# What stands beside a verdict on a run, sentence by sentence.
Notes = Callable[[Measured], Iterable[str]]


def claims() -> list[Claim]:
    """Return the claims in the order of the source."""
    languages, over_mqtt = [("python", "java")], [("tcp", "mqtt")]
    to_serial, from_serial = [("tcp", "serial"), ("mqtt", "serial")], [("serial", "tcp"), ("serial", "mqtt")]
    faster, more = (partial(directed, f"The frequency tracked {where}", +1) for where in ("by Java", "over serial"))
    over, java, networks = map(
        _alike, ("frequency tracked over MQTT", "latency from Java", "latency over TCP and MQTT")
    )
    outperform = _noted(_compared(TRACKED, 0, languages, faster), _slip)
    near, limited = _over_serial("tracked_share", "wire's limit"), _over_serial("processor_share", "processor")
    below = _every(LATENCY, 0, BOUND_MS * 1000, f"below {BOUND_MS:g} ms", "an answer", _printed)
    about = f"about {FLOOR_MS:g} ms"
    floor = _every("wire_us", FLOOR_MS * 1000 / NEAR, FLOOR_MS * 1000 * NEAR, about, "bytes counted", lambda _: about)
    tracked = (
        ("java-tracks-more", "Java clients outperform Python clients", outperform),
        ("serial-tracks-more", "Serial carries more than TCP and MQTT", _compared(TRACKED, 1, to_serial, more)),
        ("tcp-tracks-like-mqtt", "TCP and MQTT carry about as much", _compared(TRACKED, 1, over_mqtt, over)),
        ("near-capacity", "Serial comes very close to the capacity of the wire", near),
        ("processor-limits", "The client's processor limits serial", limited),
    )
    latency = (
        ("language-hardly", "Latency hardly depends on the language", _compared(LATENCY, 0, languages, java)),
        ("channel-hardly", "Latency hardly depends on the channel", _compared(LATENCY, 1, from_serial, networks)),
        ("below-15-ms", "Latency stays below 15 ms", _noted(below, _published_above)),
    )
    return [
        *(asked(name, title, THROUGHPUT, _noted(answer, _late_clocks)) for name, title, answer in tracked),
        *(asked(name, title, NAME, _noted(answer, _late_clocks)) for name, title, answer in latency),
        asked("floor", "The wire alone takes about 6.7 ms", NAME, _noted(floor, _bytes_of_a_test)),
    ]


def add_causes(runs: Mapping[str, Runs], verdicts: Verdicts) -> None:
    """Put beside the claims on latency what TCP_NODELAY changes over TCP and MQTT by more than ALIKE."""
    both = [run for fidelity in FIDELITIES if (run := runs.get(fidelity, {}).get(NAME)) is not None]
    if len(both) < len(FIDELITIES):
        return
    what = ((LATENCY, "On the client's clock"), ("edge_latency.avg", "From edge to edge"))
    sentences = [
        f"{clock}: {'; '.join(cells)}. With it off, a small packet waits until the last one is confirmed, up to 40 ms."
        for figure, clock in what
        if (cells := list(_slowed(figure, *both)))
    ]
    for claim, answers in verdicts:
        if claim.name in ("channel-hardly", "below-15-ms"):
            answers[FIDELITIES[0]].notes += sentences


def _slowed(figure: str, *both: Measured) -> Iterator[str]:
    """Yield in words each cell that takes longer over serial's time in the first run, without TCP_NODELAY.

    What chip and reports of the board add is in both, and in serial's time.
    """
    off, on = (
        {cell.key: cell.interval(figure).estimate / 1000 for cell in unfitted(run) if cell.placement == "one"}
        for run in both
    )
    for cell in (cell for cell in on if cell in off):
        language, transport, placement = cell
        serial = (language, "serial", placement)
        if transport != "serial" and serial in off and serial in on:
            without, with_it = (means_ms[cell] - means_ms[serial] for means_ms in (off, on))
            if without - with_it > ALIKE * on[cell]:
                yield (
                    f"{language} over {transport} takes {without:.1f} ms more than serial, "
                    f"{round(with_it, 1) + 0:.1f} ms with TCP_NODELAY on (corrected)"
                )


def _noted(answer: Answer, *notes: Notes) -> Answer:
    """Return `answer` with these notes beside its finding."""

    def noted(run: Measured) -> Finding:
        finding = answer(run)
        finding.notes += [text for one in notes for text in one(run)]
        return finding

    return noted


def _slip(_run: Measured) -> Iterator[str]:
    """Yield the printed figures that contradict "Java outperforms Python in all tests"."""
    slips = (f"{where} {java:g} against {python:g} Hz" for where, java, python in published.python_ahead())
    yield f"A slip: the source writes “in all tests”. It prints for Java: {'; '.join(slips)}."


def _late_clocks(run: Measured) -> Iterator[str]:
    """Yield each run whose simulated board was behind real time."""
    for one in run.runs:
        clock = one.run.treatment("board clock")
        if clock is not None and not clock["verified"]:
            yield f"{one.run.run_id}: the simulated board was {clock['found']}; its latencies hold that."


def _published_above(_run: Measured) -> Iterator[str]:
    means_ms = published.figures().query("measure == @LATENCY_MS")["value"]
    above = means_ms[means_ms > BOUND_MS]
    yield f"Of the published means {len(above)} are above {BOUND_MS:g} ms, up to {max(above):g} ms."


def _bytes_of_a_test(run: Measured) -> Iterator[str]:
    cells = [cell for cell in unfitted(run) if cell.figure("wire_us") and cell.figure("test_bytes")]
    for size, us in ((cell.figure("test_bytes"), cell.figure("wire_us") or 0.0) for cell in cells[:1]):
        yield f"A test puts {size:.0f} bytes on the wire, {us / 1000:.2f} ms."
    yield (
        f"{FLOOR_CHARACTERS} characters of 10 bits take {FLOOR_CHARACTERS * 10 / BAUD * 1000:.2f} ms at {BAUD} baud; "
        f"{FLOOR_MS:g} ms would be 12 bits a character."
    )


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
