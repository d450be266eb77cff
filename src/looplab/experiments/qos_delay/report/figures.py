"""Draw the paper's figures from a stored run: latency, latency over delay, packets in a segment, the broker's place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from looplab.experiments.qos_delay.report import MeasuredDelay
from looplab.experiments.qos_delay.report.claims import QOS, places, symmetrical, usable
from looplab.report.drawing import STYLES, Drawing, Plot, Point, errorbars, point
from looplab.report.samples import Measured
from looplab.report.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "Figure 3a: latency": ("3a",),
    "Figure 3b: latency over the end-to-end delay": ("3b",),
    "Figure 4: aggregation": ("4",),
    "Figure 5: the broker's place": ("5",),
}
_DELAY = "mean end-to-end delay that was made, in ms"
_BARS = "Symmetrical links; bars are 95 % intervals, where they are wider than the mark."
_GREY = "#777777"


@dataclass(frozen=True)
class Sketch:
    """A figure to be drawn: the points of each QoS, and the text for those who do not see it.

    `levels` are drawn as horizontal lines, `slopes` as named lines through the origin, `ticks` name the places on x.
    """

    figure: str
    fidelity: str
    points: Mapping[int, Sequence[Point]]
    x_label: str
    y_label: str
    caption: str
    alternative: str
    levels: tuple[float, ...] = ()
    slopes: Mapping[str, float] | None = None
    ticks: tuple[str, ...] = ()

    def draw(self) -> Drawing:
        name = f"qos_delay_figure_{self.figure}_{self.fidelity}"
        return Plot(name, self.figure, self.fidelity, self.caption, self.alternative, self._put).draw()

    def _put(self, axes: Axes) -> None:
        right = max(point.x for held in self.points.values() for point in held)
        for name, factor in (self.slopes or {}).items():
            axes.plot([0, right], [0, factor * right], color=_GREY, linewidth=0.8)
            axes.annotate(name, (right, factor * right), fontsize=7.5, color="#555555", ha="right", va="bottom")
        for level in self.levels:
            axes.axhline(level, color=_GREY, linewidth=0.8)
        for qos, held in self.points.items():
            _series(axes, qos, held)
        if self.ticks:
            axes.set_xticks(range(len(self.ticks)), self.ticks)
        else:
            axes.set_xlim(0, right * 1.04)
        axes.set_ylim(0, None)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        if self.levels:
            axes.set_yticks(self.levels)


def _series(axes: Axes, qos: int, held: Sequence[Point]) -> None:
    style = {0: STYLES[0], 1: ("#d55e00", "--", "s"), 2: ("#009e73", ":", "^")}[qos]
    face, size = ("none", 8) if qos == 1 else (style[0], 5)
    errorbars(axes, f"QoS {qos}", held, style, markersize=size, markerfacecolor=face, linewidth=1.6)


def sketches(run: Measured) -> list[Sketch]:
    """Return figures 3a, 3b, 4 and 5; those for which the run has no cells are left out."""
    lines = [
        _over_delay(
            run, "3a", lambda c: _point(c, c.mean("L"), 1000), "publisher to subscriber in ms", "Mean latency."
        ),
        _over_delay(
            run,
            "3b",
            lambda c: _point(c, c.interval("ratio"), 1),
            "latency over end-to-end delay",
            "Mean latency over the mean end-to-end delay.",
        ),
        _over_delay(
            run,
            "4",
            lambda c: _point(c, c.interval("packets_per_segment"), 1),
            "MQTT packets in a segment",
            "MQTT packets that a publisher's segment carries.",
        ),
    ]
    return [sketch for sketch in (*lines, _places(run)) if sketch is not None]


def _point(cell: MeasuredDelay, value: Interval | None, unit: float) -> Point | None:
    return None if value is None or math.isnan(value.estimate) else point(cell.made_ms or 0, value, unit)


def _over_delay(
    run: Measured, figure: str, mark: Callable[[MeasuredDelay], Point | None], y_label: str, says: str
) -> Sketch | None:
    points = {qos: [p for cell in symmetrical(run, qos) if (p := mark(cell)) is not None] for qos in QOS}
    points = {qos: held for qos, held in points.items() if held}
    if not points:
        return None
    told = [f"QoS {qos}: " + ", ".join(f"{p.y:.3g} at {p.x:.3g} ms" for p in held) for qos, held in points.items()]
    return Sketch(
        figure,
        run.run.fidelity,
        points,
        _DELAY,
        y_label,
        f"{says} {_BARS}",
        f"{says} {'; '.join(told)}.",
        levels=(1, 2, 4, 7) if figure == "3b" else (),
        slopes={"one way": 1, "round trip": 2} if figure == "3a" else None,
    )


def _places(run: Measured) -> Sketch | None:
    """Return figure 5: of the end-to-end delays with the broker at several places, the one with most of them."""
    groups: dict[float, set[tuple[float, float]]] = {}
    for (delay, _qos), cells in places(run).items():
        groups.setdefault(delay, set()).update((c.delay_pb_ms, c.delay_bs_ms) for c in cells)
    if not groups:
        return None
    delay = max(groups, key=lambda d: len(groups[d]))
    pairs = sorted(groups[delay])
    at_places = {
        qos: [c for c in usable(run) if c.qos == qos and (c.delay_pb_ms, c.delay_bs_ms) in pairs] for qos in QOS
    }
    points, told = {}, []
    for qos, held in at_places.items():
        held.sort(key=lambda c: c.delay_pb_ms)
        marks = [(c, p) for c in held if (p := _point(c, c.interval("ratio"), 1)) is not None]
        if marks:
            at = [pairs.index((c.delay_pb_ms, c.delay_bs_ms)) for c, _ in marks]
            points[qos] = [Point(x, p.y, p.below, p.above) for x, (_, p) in zip(at, marks, strict=True)]
            said = [f"{c.delay_pb_ms:g}-{c.delay_bs_ms:g} ms {p.y:.2f}" for c, p in marks]
            told.append(f"QoS {qos}: {', '.join(said)}")
    says = f"The broker at several places of one path of {delay:g} ms."
    return Sketch(
        "5",
        run.run.fidelity,
        points,
        "delay publisher–broker and broker–subscriber in ms",
        "latency over end-to-end delay",
        says,
        f"{says} Latency over delay: {'; '.join(told)}.",
        ticks=tuple(f"{pb:g}–{bs:g}" for pb, bs in pairs),
    )
