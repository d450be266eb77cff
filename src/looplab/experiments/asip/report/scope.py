"""The oscilloscope's pictures: edges of pin 2 and pin 13 from edges.csv, as the board's cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from looplab.experiments.asip import AsipCell
from looplab.experiments.asip.board import CLOCK_HZ, OUTPUT_PIN, WAVE_PIN
from looplab.experiments.asip.report import MeasuredAsip, MeasuredThroughput
from looplab.report.csv_file import Unreadable, key_types, lines_of, read_csv
from looplab.report.drawing import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "edges.csv"
# As many edges of pin 2 are drawn.
EDGES_SHOWN = 12
PINS = {WAVE_PIN: ("#0072b2", 0.0, "pin 2, the generator"), OUTPUT_PIN: ("#d55e00", 1.5, "pin 13, the client")}
_COLUMNS = {**key_types(AsipCell), **dict.fromkeys(("step", "pin", "level", "cycle"), "int64")}

# A row of (cycle, level) for each edge.
Trace = NDArray[np.int64]


def scopes(folder: Path, fidelity: str, cells: Sequence[MeasuredAsip]) -> Iterator[Plot]:
    """Yield the pictures of one cell: serial and Python if measured. None without an oscilloscope (a real board)."""
    if not cells or not (folder / FILE).is_file():
        return
    cell = min(cells, key=lambda c: (c.placement != "one", c.transport != "serial", c.language != "python"))
    try:
        edges = read_csv(folder / FILE, _COLUMNS)
    except Unreadable:
        return
    edges = lines_of(edges, cell).sort_values("cycle", kind="stable")
    for name, step, says in _steps(cell):
        of_step = edges[edges["step"] == step]
        traces = {pin: of_step.loc[of_step["pin"] == pin, ["cycle", "level"]].to_numpy() for pin in PINS}
        if len(traces[WAVE_PIN]) >= 2:
            span = _span(*traces.values())
            traces = {pin: _inside(trace, span) for pin, trace in traces.items()}
            counts = ", ".join(f"pin {pin}: {len(trace)} edges" for pin, trace in traces.items())
            caption, put = f"{cell}: {says}", partial(_put, traces, span)
            yield Plot(f"asip_scope_{name}_{fidelity}", "scope", fidelity, caption, f"{caption} {counts}.", put)


def _steps(cell: MeasuredAsip) -> Iterator[tuple[str, int, str]]:
    """Yield the steps to show, each with name and caption: the fastest wave tracked, the slowest that was not."""
    if not isinstance(cell, MeasuredThroughput):
        yield "latency", -1, "each edge of pin 2 comes back on pin 13 one latency later."
        return
    for tracked, pick, name, says in ((True, max, "tracked", "tracked"), (False, min, "untracked", "not tracked")):
        steps = [(step["frequency_hz"], at) for at, step in enumerate(cell.steps) if step["tracked"] is tracked]
        if steps:
            hz, at = pick(steps)
            yield name, at, f"{hz:.4g} Hz, {says}."


def _span(wave: Trace, out: Trace) -> tuple[int, int]:
    """Return the cycles to show: those around the longest pause of pin 13 if it misses edges, else the middle."""
    middle, times = len(wave) // 2, wave[:, 0]
    if 2 <= len(out) != len(wave):
        middle = int(np.searchsorted(times, out[np.argmax(np.diff(out[:, 0])), 0], side="right"))
    first = max(0, min(middle - EDGES_SHOWN // 2, len(times) - EDGES_SHOWN))
    shown = times[first : first + EDGES_SHOWN]
    # Half a period at either end.
    margin = max(1, int(shown[-1] - shown[0]) // (2 * len(shown)))
    return int(shown[0]) - margin, int(shown[-1]) + margin


def _inside(trace: Trace, span: tuple[int, int]) -> Trace:
    """Return the edges inside the span, and the last one before it."""
    first, last = np.searchsorted(trace[:, 0], span)
    return trace[max(0, first - 1) : last]


def _put(traces: Mapping[int, Trace], span: tuple[int, int], axes: Axes) -> None:
    to_ms = 1000 / CLOCK_HZ
    for pin, trace in traces.items():
        colour, raised, label = PINS[pin]
        x = [*trace[:, 0], span[1]] if len(trace) else []
        y = [*trace[:, 1], trace[-1, 1]] if len(trace) else []
        axes.step((np.array(x) - span[0]) * to_ms, np.array(y) + raised, where="post", color=colour, label=label)
    axes.set_xlim(0, (span[1] - span[0]) * to_ms)
    axes.set_ylim(-0.2, 2.8)
    axes.set_yticks([0, 1, 1.5, 2.5], ["low", "high", "low", "high"])
    axes.set_xlabel("ms by the board's clock")
