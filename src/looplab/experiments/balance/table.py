"""A run as a table of 80 columns: how the robot stood, then how messages did."""

from collections.abc import Iterator
from math import inf
from typing import Any

from looplab.experiments.balance import BalanceCell
from looplab.experiments.balance.laws import FALLS_FROM_MS
from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.table import cell_lines, notices
from looplab.run import stalls
from looplab.run.table import aligned, number, run_text, unsure
from looplab.spec.columns import Figure

OWN = [one for one in vars(BalanceCell).values() if isinstance(one, Figure) and one.heading]
TIMES = [(BalanceCell.age, "avg"), (BalanceCell.age, "max"), (BalanceCell.T, "avg")]
NOTE = (
    "upright: how long it stood, in s, of messages x interval; tilt: RMS, rad",
    "misses: of any 10 messages in a row, at most, without an answer in time",
    "age of the reading behind a command, and all latencies, in ms",
)


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), no line feed at its end."""
    cells = [BalanceCell(document) for document in run["cells"]]
    heads = [*(one.heading for one in OWN), *(f"{one.name} {statistic}" for one, statistic in TIMES)]
    rows = [["interval", "QoS", "sent", "lost", "late", *heads], *(list(_row(cell)) for cell in cells)]
    marks = ["", *("" if cell.valid else " !" for cell in cells)]
    lines = [f"{line}{mark}" for line, mark in zip(aligned(rows, gap=" "), marks, strict=True)]
    for cell in cells:
        lines += ["", *cell_lines(LoopCell(cell.document), run.get("parameters", {})), *stalls.lines(cell.document)]
    lines += ["", *unsure([line.split() for line in lines])]
    return run_text(run, [*NOTE, "", *lines, *_cannot_hold(run), *notices(run)])


def _cannot_hold(run: dict[str, Any]) -> Iterator[str]:
    """Yield which intervals are too long for the designed gains; of other gains the report says it."""
    controller, gains = (run.get("parameters", {}).get(name) for name in ("controller", "gains"))
    least_ms = FALLS_FROM_MS.get(str(controller), inf)
    beyond = sorted({cell["interval_ms"] for cell in run["cells"] if cell["interval_ms"] >= least_ms})
    if beyond and not gains:
        named = ", ".join(f"{ms:g}" for ms in beyond)
        yield f"No robot stands at {named} ms: {controller} falls from {least_ms:g} ms on."


def _row(cell: BalanceCell) -> Iterator[str]:
    yield f"{cell.interval_ms:g} ms"
    yield from map(str, (cell.qos, cell.sent, cell.lost, cell.late))
    yield from (number(one.of(cell), 0, one.digits) for one in OWN)
    for one, statistic in TIMES:
        value = one.of(cell).get(statistic)
        yield number(None if value is None else value / 1000, 0, 1)
