"""The oscilloscope's pictures: edges of pin 2 and pin 13 from edges.csv, as the board's cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from looplab.experiments.asip.report.cell import MeasuredAsip
from looplab.report.csv_file import WORD, Unreadable, read_csv
from looplab.report.drawing import Drawing, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "edges.csv"
CYCLES_PER_MS = 16_000
PIN_IN, PIN_OUT = 2, 13
# As many edges of pin 2 are drawn.
EDGES_SHOWN = 12
_CELL = ("language", "transport", "placement")
_COLUMNS = {**dict.fromkeys(_CELL, WORD), **dict.fromkeys(("step", "pin", "level", "cycle"), "int64")}

# (cycle, level) of each edge.
Trace = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Scope:
    """A picture to be drawn: the traces of both pins between two cycles."""

    name: str
    fidelity: str
    traces: dict[int, Trace]
    span: tuple[int, int]
    caption: str

    def draw(self) -> Drawing:
        told = ", ".join(f"pin {pin}: {len(trace)} edges" for pin, trace in self.traces.items())
        name = f"asip_scope_{self.name}_{self.fidelity}"
        return Plot(name, "scope", self.fidelity, self.caption, f"{self.caption} {told}.", self._put).draw()

    def _put(self, axes: Axes) -> None:
        looks = {PIN_IN: ("#0072b2", 0.0, "pin 2, the generator"), PIN_OUT: ("#d55e00", 1.5, "pin 13, the client")}
        for pin, trace in self.traces.items():
            colour, raised, label = looks[pin]
            x = [(cycle - self.span[0]) / CYCLES_PER_MS for cycle, _level in trace]
            axes.step(x, [level + raised for _cycle, level in trace], where="post", color=colour, label=label)
        axes.set_xlim(0, (self.span[1] - self.span[0]) / CYCLES_PER_MS)
        axes.set_ylim(-0.2, 2.8)
        axes.set_yticks([0, 1, 1.5, 2.5], ["low", "high", "low", "high"])
        axes.set_xlabel("ms by the board's clock")


def scopes(folder: Path, fidelity: str, cells: Sequence[MeasuredAsip]) -> list[Scope]:
    """Return the pictures of one cell: serial and Python if measured. None without an oscilloscope (a real board)."""
    path = folder / FILE
    if not cells or not path.is_file():
        return []
    cell = min(cells, key=lambda c: (c.placement != "one", c.transport != "serial", c.language != "python"))
    try:
        edges = read_csv(path, _COLUMNS)
    except Unreadable:
        return []
    edges = edges[np.logical_and.reduce([edges[name] == word for name, word in zip(_CELL, cell.key, strict=True)])]
    found = []
    for name, step, said in _steps(cell):
        traces = {pin: _trace(edges, step, pin) for pin in (PIN_IN, PIN_OUT)}
        if len(traces[PIN_IN]) >= 2:
            found.append(_scope(name, fidelity, traces, f"{cell}: {said}"))
    return found


def _steps(cell: MeasuredAsip) -> list[tuple[str, int, str]]:
    """Return the steps to show, each with name and caption: the fastest wave tracked, the slowest that was not."""
    if not cell.steps:
        return [("latency", -1, "each edge of pin 2 comes back on pin 13 one latency later.")]
    tracked = [(s["frequency_hz"], at) for at, s in enumerate(cell.steps) if s["tracked"]]
    missed = [(s["frequency_hz"], at) for at, s in enumerate(cell.steps) if not s["tracked"]]
    found = []
    if tracked:
        found.append(("tracked", max(tracked)[1], f"{max(tracked)[0]:.4g} Hz, tracked."))
    if missed:
        found.append(("untracked", min(missed)[1], f"{min(missed)[0]:.4g} Hz, not tracked."))
    return found


def _trace(edges: pd.DataFrame, step: int, pin: int) -> Trace:
    held = edges[(edges["step"] == step) & (edges["pin"] == pin)].sort_values("cycle", kind="stable")
    return list(zip(held["cycle"].tolist(), held["level"].tolist(), strict=True))


def _scope(name: str, fidelity: str, traces: dict[int, Trace], caption: str) -> Scope:
    inputs = traces[PIN_IN]
    first = max(0, min(_middle(traces) - EDGES_SHOWN // 2, len(inputs) - EDGES_SHOWN))
    shown = inputs[first : first + EDGES_SHOWN]
    # Half a period at either end.
    margin = max(1, (shown[-1][0] - shown[0][0]) // (2 * len(shown)))
    span = (shown[0][0] - margin, shown[-1][0] + margin)
    return Scope(name, fidelity, {pin: _within(trace, span) for pin, trace in traces.items()}, span, caption)


def _middle(traces: dict[int, Trace]) -> int:
    """Return which edge of pin 2 to show in the middle: where pin 13 pauses longest, if it misses edges."""
    inputs, outputs = traces[PIN_IN], [cycle for cycle, _level in traces[PIN_OUT]]
    if len(outputs) == len(inputs) or len(outputs) < 2:
        return len(inputs) // 2
    gaps = [after - before for before, after in pairwise(outputs)]
    pause = outputs[gaps.index(max(gaps))]
    return sum(cycle <= pause for cycle, _level in inputs)


def _within(trace: Trace, span: tuple[int, int]) -> Trace:
    """Return the part of a trace inside the span, with its level at both ends."""
    inside = [edge for edge in trace if span[0] <= edge[0] <= span[1]]
    before = [level for cycle, level in trace if cycle < span[0]]
    start = before[-1] if before else 1 - inside[0][1] if inside else 0
    return [(span[0], start), *inside, (span[1], inside[-1][1] if inside else start)]
