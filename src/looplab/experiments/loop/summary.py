"""What a run ends with: one row a latency, or one line a cell, and what to doubt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor, log10
from textwrap import fill
from typing import Any

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.fitted import depends, fitted
from looplab.experiments.loop.losses import CAUSES
from looplab.experiments.loop.table import FITTED, notices
from looplab.experiments.loop.thesis_tables import rows
from looplab.run.accounting import mark
from looplab.run.stalls import LATE_US, why_slow
from looplab.run.table import WIDTH, aligned, unsure, verdict
from looplab.system.words import plural

ROWS = {"T": "response time", "R": "robot", "O": "MQTT and network"}
QUANTILES = {"p50": "half within", "p95": "95 of 100", "p99": "99 of 100", "max": "slowest"}
HEADS = {**{q: words.split()[0] for q, words in QUANTILES.items()}, "avg": "mean"}
OUTCOMES = ("sent", "lost", "late")
MEAN = "thesis mean"
# Where little room is left.
SHORT = {"half within": "half", MEAN: "thesis"}
FIDELITIES = {"printed": "with the printed clients", "thesis": "as published", "corrected": "corrected"}
CAUSE_WORDS = {
    "merged": "the bridge read two answers as one",
    "disconnected": "a connection was down",
    "expired": "answered after the time limit",
    "unknown": "for an unknown reason",
}
INDENT = "  "
FITTED_NOTE = f"{FITTED} depends on constants that were fitted to the thesis: ./lab show names them."


def summary(run: dict[str, Any], width: int = WIDTH) -> str:
    """Return the summary of a run (a run.json document) in `width` columns, 64 at least, latencies in ms; no line feed
    at its end.

    With one cell at most 13 lines where nothing went wrong. `./lab show` prints all else.
    """
    cells, narrow = run["cells"], width < WIDTH
    table = _one(run, cells[0], narrow) if len(cells) == 1 else _many(run, narrow)
    lines = [*_head(run), "", *table, ""]
    ends = [FITTED_NOTE] if fitted(run.get("parameters", {})) else []
    ends += [*_doubts(run), *verdict(run, brief=True, width=width - 2)]
    lines += [f"{INDENT}{line}" for line in ends]
    return _filled(lines, width)


def several(runs: Sequence[dict[str, Any]]) -> str:
    """Return the summary of several runs of one fidelity: a line a cell, beside the thesis, then each run's verdict."""
    shown = [("T", "p50"), ("O", "p50"), ("O", "p95"), ("O", "max"), ("O", "avg")]
    how = f"{FIDELITIES[runs[0]['fidelity']]}, latencies in ms"
    text = [how, "", *_lines(runs, shown, OUTCOMES[:2], beside=True), ""]
    text += [FITTED_NOTE] if any(fitted(run.get("parameters", {})) for run in runs) else []
    for run in runs:
        first, *more = verdict(run, brief=True, width=WIDTH - 2)
        text += [f"{run['scenario']}: {first}", *more, *_doubts(run), f"Kept in results/{run['run_id']}"]
    return _filled((f"{INDENT}{line}".rstrip() for line in text), WIDTH)


def _filled(lines: Iterable[str], width: int) -> str:
    return "\n".join(fill(line, width, subsequent_indent=INDENT * 2) if len(line) > width else line for line in lines)


def _published(run: Mapping[str, Any], cell: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the thesis's figures of the cell in us, {} if it prints none."""
    key = (run["scenario"], cell["qos"], cell["interval_ms"])
    return next((row.latency_us for row in rows() if (row.scenario, row.qos, row.interval_ms) == key), {})


def _head(run: Mapping[str, Any]) -> list[str]:
    title = run.get("parameters", {}).get("title", "")
    cells = run["cells"]
    how = FIDELITIES[run["fidelity"]]
    if len(cells) == 1:
        cell = cells[0]
        how += f", {plural(cell['sent'], 'message')} at QoS {cell['qos']}, one each {cell['interval_ms']:g} ms"
    return [f"{run['scenario']}  {title}".rstrip(), f"{INDENT}{how}, latencies in ms"]


def _one(run: Mapping[str, Any], cell: Mapping[str, Any], narrow: bool) -> Iterator[str]:
    """Yield the latencies of a run with one cell, a row each, then its counts."""
    means = _published(run, cell)
    heads = [*QUANTILES.values(), *([MEAN] if means else [])]
    lines = [["", "", *(SHORT.get(head, head) if narrow else head for head in heads)]]
    for name, about in ROWS.items():
        published = [_in_ms(means.get(f"{name}_avg"))] if means else []
        lines.append([about, _marked(run, name), *(_text(cell[f"{name}_us"], q) for q in QUANTILES), *published])
    yield from (f"{INDENT}{line}" for line in [*aligned(lines, left=1, gap=" " if narrow else "  "), *unsure(lines)])
    yield ""
    yield f"{INDENT}{_counts(cell)}"
    if behind := LoopCell(cell).behind:
        yield f"{INDENT}{behind} of {cell['sent']} requests had no answer when the next one was due"


def _many(run: dict[str, Any], narrow: bool) -> Iterator[str]:
    """Yield one line a cell; `narrow` leaves out late ones and the slowest T."""
    shown = [(name, q) for name in ("T", "O") for q in ("p50", "p95", "max") if not narrow or (name, q) != ("T", "max")]
    yield from (f"{INDENT}{line}" for line in _lines([run], shown, OUTCOMES[: 2 if narrow else 3]))


def _lines(
    runs: Sequence[Mapping[str, Any]],
    shown: Sequence[tuple[str, str]],
    outcomes: Sequence[str],
    *,
    beside: bool = False,
) -> list[str]:
    """Return one line a cell with what is `shown` of it; `beside` its run's name and the thesis's mean of O."""
    heads = [f"{_marked(runs[0], name)} {HEADS[q]}" for name, q in shown]
    lines = [[*([""] if beside else []), "interval", "QoS", *outcomes, *heads, *(["thesis"] if beside else [])]]
    for run in runs:
        for cell in run["cells"]:
            counts = (str(cell[name]) for name in ("qos", *outcomes))
            figures = (_text(cell[f"{name}_us"], q) for name, q in shown)
            row = [f"{cell['interval_ms']:g} ms", *counts, *figures]
            lines.append([run["scenario"], *row, _in_ms(_published(run, cell).get("O_avg"))] if beside else row)
    notes = ["half, 95: within these times half, 95 of 100 messages were answered"]
    notes += ["thesis: its mean of O"] if beside else []
    return [*aligned(lines, left=int(beside), gap=" "), *unsure(lines), *notes]


def _counts(cell: Mapping[str, Any]) -> str:
    lost_by = cell.get("lost_by", {})
    causes = {CAUSE_WORDS[cause]: lost_by[cause] for cause in CAUSES if lost_by.get(cause)}
    # A single cause needs no number of its own.
    reasons = [f"{count}: {words}" for words, count in causes.items()] if len(causes) > 1 else causes
    why = f" ({'; '.join(reasons)})" if causes else ""
    errors = f", {plural(cell['robot_errors'], 'error')} of the robot" if cell["robot_errors"] else ""
    return f"{cell['answered']} answered, {cell['lost']} lost{why}, {cell['late']} late{errors}"


def _doubts(run: dict[str, Any]) -> Iterator[str]:
    """Yield, a line each, what makes the figures doubtful though the run may be VALID."""
    latest_us = max((cell["send_lateness_us"]["p99"] or 0 for cell in run["cells"]), default=0)
    if latest_us > LATE_US:
        facts = run.get("environment", {})
        load = facts.get("load_before", [0])[0]
        before = f" (load {load:.1f} on {plural(facts['cores'], 'core')} before the run)" if load else ""
        yield f"! This machine was busy{before}: 1 of 100 requests left {_in_ms(latest_us)} ms late or later."
    # Once for all cells: `./lab show` has each.
    slow = dict.fromkeys(why for cell in run["cells"] if (why := why_slow(cell)))
    yield from (f"! {doubt}" for doubt in (*slow, *notices(run)))


def _marked(run: Mapping[str, Any], name: str) -> str:
    return name + (FITTED if depends(run.get("parameters", {}), name) else "")


def _text(figures: Mapping[str, Any], statistic: str) -> str:
    """A latency that is null although there are messages is that of a lost one."""
    value = figures.get(statistic)
    return "lost" if value is None and figures.get("n") else _in_ms(value) + mark(statistic, figures.get("n"))


def _in_ms(microseconds: float | None) -> str:
    return significant(None if microseconds is None else microseconds / 1000)


def significant(value: float | None) -> str:
    """Return a figure with three significant digits, a dash where there is none."""
    if value is None:
        return "-"
    decimals = 2 - floor(log10(abs(value))) if value else 2
    return f"{value:.{min(max(decimals, 0), 3)}f}"
