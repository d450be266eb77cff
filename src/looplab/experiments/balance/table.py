"""A run as a table of 80 columns: how the robot stood, then how messages did."""

from collections.abc import Iterator
from typing import Any

from looplab.experiments.balance import BalanceCell
from looplab.experiments.loop.table import notices
from looplab.run import stalls
from looplab.run.table import aligned, number, run_text, unsure

HEAD = ("interval", "QoS", "sent", "lost", "late", "upright", "tilt RMS", "cost", "age", "oldest", "T", "misses")
NOTE = (
    "upright in s; tilt RMS in degrees while it stood; cost: see ./lab show --cells",
    "age (mean, oldest) of the reading behind a command and mean T in ms; misses: of 10",
)


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), no line feed at its end."""
    cells = [BalanceCell(document) for document in run["cells"]]
    rows = [list(HEAD), *(list(_row(cell)) for cell in cells)]
    marks = ["", *("" if cell.valid else " !" for cell in cells)]
    lines = [f"{line}{mark}" for line, mark in zip(aligned(rows, gap=" "), marks, strict=True)]
    stalled = [line for cell in cells for line in stalls.lines(cell.document)]
    return run_text(run, [*NOTE, "", *lines, *stalled, *notices(run), *unsure(rows), ""])


def _row(cell: BalanceCell) -> Iterator[str]:
    yield f"{cell.interval_ms:g} ms"
    yield from map(str, (cell.qos, cell.sent, cell.lost, cell.late))
    yield number(cell.upright_s, 0, 1)
    yield number(cell.tilt_rms_deg, 0, 2)
    yield number(cell.cost, 0, 2)
    for figures, statistic in ((cell.age, "avg"), (cell.age, "max"), (cell.T, "avg")):
        value = figures.get(statistic)
        yield number(None if value is None else value / 1000, 0, 1)
    yield number(cell.misses_of_10, 0, 0)
