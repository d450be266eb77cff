"""One figure of a scenario: the CDF of each student's run, a style for each machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from looplab.exercises.collection import HandedIn, Row
from looplab.report.cell import Cell, Key
from looplab.report.drawing import STYLES, Drawing, Plot, shares
from looplab.report.samples import read_cells
from looplab.report.stored import Unusable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Beyond this ratio of the highest p95 to the lowest p5, a linear axis hides either the body or the tail.
LOG_FROM = 6.0
# With more curves, names would cover them: the table below has them.
MOST_NAMES = 8


@dataclass(frozen=True)
class StudentCurve:
    """The cell that is drawn of one student's run, and the latencies of its answered messages, sorted."""

    handed: HandedIn
    cell: Cell
    values_us: np.ndarray

    def quantile_us(self, share: float) -> float | None:
        """Return the quantile of all sent messages, None if that many were not answered."""
        rank = int(np.ceil(share * self.cell.sent)) - 1
        return float(self.values_us[max(rank, 0)]) if rank < self.values_us.size else None

    def row(self) -> Row:
        """Return its line of the table below the figure; times in milliseconds, `inf` for a message without answer."""
        figures = {f"p{round(q * 100)}_ms": self.quantile_us(q) for q in (0.5, 0.95, 0.99)}
        shown = {name: "inf" if value is None else f"{value / 1000:.3f}" for name, value in figures.items()}
        return {
            "student": self.handed.student,
            "machine": self.handed.machine,
            "run_id": self.handed.run.run_id,
            "cell": self.cell.text,
            "sent": self.cell.sent,
            "lost": self.cell.lost,
            **shown,
        }


@dataclass(frozen=True)
class ClassFigure:
    """A figure with its table."""

    scenario: str
    fidelity: str
    drawing: Drawing
    rows: Sequence[Row]


def class_figure(scenario: str, fidelity: str, held: Sequence[HandedIn]) -> ClassFigure | None:
    """Return the figure of those runs, None if none of them has latencies that can be read."""
    read = {handed: cells for handed in held if not isinstance(cells := read_cells(handed.run), Unusable)}
    layout = held[0].run.layout
    metric, usual = layout.shown or (next(iter(layout.metrics), ""), None)
    key = _key(list(read.values()), usual)
    if key is None or not metric:
        return None
    words = metric.replace("_", " ")
    curves = [
        StudentCurve(handed, cells[key], np.sort(cells[key].latency_us[metric]))
        for handed, cells in read.items()
        if key in cells and cells[key].measured
    ]
    if not curves:
        return None
    machines = sorted({curve.handed.machine for curve in curves})
    style_of = {machine: STYLES[place % len(STYLES)] for place, machine in enumerate(machines)}

    def put(axes: Axes) -> None:
        students = Counter(curve.handed.machine for curve in curves)
        for number, curve in enumerate(curves):
            machine = curve.handed.machine
            first = machine not in [earlier.handed.machine for earlier in curves[:number]]
            count = students[machine]
            label = f"machine {machine}: {count} student{'s' if count > 1 else ''}" if first else None
            _draw(axes, curve, style_of[machine], label)
            if len(curves) <= MOST_NAMES:
                _name(axes, curve, (number + 1) / (len(curves) + 1))
        shares(axes, words, "share of messages sent", logarithmic=_wants_log(curves))

    caption = (
        f"{words} of {scenario} at {curves[0].cell.text}, one curve a student, one style a machine. "
        "A curve ends below 100 % where messages were lost."
    )
    name = f"class_{scenario}_{fidelity}"
    drawing = Plot(name, scenario, fidelity, caption, _alternative(words, scenario, curves), put).draw()
    return ClassFigure(scenario, fidelity, drawing, [curve.row() for curve in curves])


def _key(read: Sequence[Mapping[Key, Cell]], usual: Key | None) -> Key | None:
    """Return the cell that most students have; of several, the usual one."""
    counts = Counter(key for cells in read for key in cells)
    return max(counts, key=lambda key: (counts[key], key == usual, key), default=None)


def _draw(axes: Axes, curve: StudentCurve, style: tuple[str, str, str], label: str | None) -> None:
    colour, line, mark = style
    share = np.arange(1, curve.values_us.size + 1) / curve.cell.sent
    axes.step(
        curve.values_us / 1000,
        share,
        line,
        where="post",
        color=colour,
        linewidth=1.3,
        marker=mark,
        markevery=max(1, share.size // 6),
        markersize=4.5,
        label=label,
    )


def _name(axes: Axes, curve: StudentCurve, height: float) -> None:
    """Write the student's name on the curve, at a height of its own."""
    place = min(int(height * curve.cell.sent), curve.values_us.size - 1)
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.text(
        curve.values_us[place] / 1000,
        (place + 1) / curve.cell.sent,
        curve.handed.student,
        fontsize=8,
        ha="center",
        va="center",
        bbox=ground,
        clip_on=True,
    )


def _wants_log(curves: Sequence[StudentCurve]) -> bool:
    low = min(float(np.quantile(curve.values_us, 0.05)) for curve in curves)
    high = max(float(np.quantile(curve.values_us, 0.95)) for curve in curves)
    return low > 0 and high / low > LOG_FROM


def _alternative(metric: str, scenario: str, curves: Sequence[StudentCurve]) -> str:
    """Return what the figure shows: how far students of one machine and of all machines differ."""
    said = []
    for machine in sorted({curve.handed.machine for curve in curves}):
        medians = [q for c in curves if c.handed.machine == machine and (q := c.quantile_us(0.5)) is not None]
        tails = [q for c in curves if c.handed.machine == machine and (q := c.quantile_us(0.95)) is not None]
        count = sum(c.handed.machine == machine for c in curves)
        said.append(f"machine {machine}, {count} student(s): median {_span(medians)}, 95th percentile {_span(tails)}")
    return f"Cumulative distribution of {metric} in {scenario} for {len(curves)} students. " + "; ".join(said) + "."


def _span(values_us: Sequence[float]) -> str:
    if not values_us:
        return "infinite"
    low, high = min(values_us) / 1000, max(values_us) / 1000
    return f"{low:.3g} ms" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} ms"
