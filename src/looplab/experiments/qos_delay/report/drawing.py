"""The paper's figures anew from a stored run: latency, latency over delay, packets in a segment, the broker's place."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from looplab.experiments.loop.report.figures import PLACE, PNG_DPI, SIZE_INCHES
from looplab.experiments.qos_delay.report.runs import DelayCell, DelayRun
from looplab.report.statistics import Interval

# Told apart by line and mark, not by colour alone (palette of Okabe and Ito).
STYLES = {0: ("#0072b2", "-", "o"), 1: ("#d55e00", "--", "s"), 2: ("#009e73", ":", "^")}


@dataclass(frozen=True)
class Drawing:
    """One drawn figure: as text for those who do not see it, as SVG and PNG for the others."""

    figure: str
    fidelity: str
    caption: str
    alternative: str
    svg: bytes
    png: bytes

    @property
    def name(self) -> str:
        return f"qos_delay_figure_{self.figure}_{self.fidelity}"


@dataclass(frozen=True)
class Point:
    """One mark: x, y and how far the interval reaches (None where there is none)."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


def drawings(run: DelayRun) -> list[Drawing]:
    """Figures 3a, 3b, 4 and 5; those for which the run has no cells are left out."""
    latency = _against_delay(run, lambda c: _interval(c.mean_us, 1000))
    ratio = _against_delay(run, lambda c: _interval(c.ratio, 1))
    carried = _against_delay(run, lambda c: (c.packets_per_segment, None, None))
    fidelity = run.run.fidelity
    drawn = [
        _lines("3a", fidelity, latency, "publisher to subscriber in ms", "Mean latency.", one_way=1.0),
        _lines("3b", fidelity, ratio, "latency over end-to-end delay", "Mean latency over the mean end-to-end delay.",
               levels=(1, 2, 4, 7)),
        _lines("4", fidelity, carried, "MQTT packets in a segment", "MQTT packets that a publisher's segment carries."),
        _places(run),
    ]  # fmt: skip
    return [drawing for drawing in drawn if drawing is not None]


def _interval(value: Interval, unit: float) -> tuple[float | None, float | None, float | None]:
    if not value.known:
        return value.estimate / unit, None, None
    # Where it ends beyond the largest value, no bar can be drawn.
    return value.estimate / unit, value.low / unit, value.high / unit if np.isfinite(value.high) else None


def _against_delay(
    run: DelayRun, figure: Callable[[DelayCell], tuple[float | None, float | None, float | None]]
) -> dict[int, list[Point]]:
    found: dict[int, list[Point]] = {}
    for qos in STYLES:
        for cell in run.symmetrical(qos):
            y, low, high = figure(cell)
            if y is not None and np.isfinite(y):
                found.setdefault(qos, []).append(Point(cell.made_ms, y, low, high))
    return found


def _lines(
    figure: str,
    fidelity: str,
    points: dict[int, list[Point]],
    y_label: str,
    says: str,
    *,
    one_way: float | None = None,
    levels: Sequence[float] = (),
) -> Drawing | None:
    if not points:
        return None

    def draw(axes: Axes) -> None:
        right = max(point.x for held in points.values() for point in held)
        if one_way:
            for factor, name in ((1, "one way"), (2, "round trip")):
                axes.plot([0, right], [0, factor * right], color="#777777", linewidth=0.8)
                axes.annotate(name, (right, factor * right), fontsize=7.5, color="#555555", ha="right", va="bottom")
        for level in levels:
            axes.axhline(level, color="#777777", linewidth=0.8)
        for qos, held in points.items():
            _series(axes, qos, held)
        axes.set_xlim(0, right * 1.04)
        axes.set_ylim(0, None)
        axes.set_xlabel("mean end-to-end delay that was made, in ms")
        axes.set_ylabel(y_label)
        if levels:
            axes.set_yticks([*levels])

    told = [
        f"QoS {qos}: " + ", ".join(f"{point.y:.3g} at {point.x:.3g} ms" for point in held)
        for qos, held in points.items()
    ]
    caption = f"{says} Symmetrical links; bars are 95 % intervals, where they are wider than the mark."
    return _drawn(figure, fidelity, caption, f"{says} " + "; ".join(told) + ".", draw)


def _series(axes: Axes, qos: int, held: Sequence[Point]) -> None:
    colour, line, mark = STYLES[qos]
    y = np.array([p.y for p in held])
    errors = np.array(
        [[p.y - (p.low if p.low is not None else p.y) for p in held],
         [(p.high if p.high is not None else p.y) - p.y for p in held]]
    )  # fmt: skip
    axes.errorbar(
        [p.x for p in held], y, yerr=np.abs(errors), color=colour, linestyle=line, marker=mark,
        markersize=8 if qos == 1 else 5,
        markerfacecolor="none" if qos == 1 else colour,
        linewidth=1.6, capsize=2.5, label=f"QoS {qos}",
    )  # fmt: skip


def _places(run: DelayRun) -> Drawing | None:
    """Figure 5: one end-to-end delay, the broker at several places; of several such delays the one with most places."""
    groups: dict[float, set[tuple[float, float]]] = {}
    for cell in run.cells.values():
        if cell.valid and cell.made_ms > 0:
            groups.setdefault(cell.end_to_end_ms, set()).add((cell.delay_pb_ms, cell.delay_bs_ms))
    delay = max(groups, key=lambda d: len(groups[d]), default=0.0)
    if len(groups.get(delay, ())) < 2:
        return None
    pairs = sorted(groups[delay])
    held = {
        qos: [(k, c) for k, (pb, bs) in enumerate(pairs) if (c := run.cells.get((pb, bs, qos))) and c.valid]
        for qos in STYLES
    }

    def draw(axes: Axes) -> None:
        for qos, cells in held.items():
            if cells:
                _series(axes, qos, [Point(k, *_known(_interval(c.ratio, 1))) for k, c in cells])
        axes.set_xticks(range(len(pairs)), [f"{pb:g}–{bs:g}" for pb, bs in pairs])
        axes.set_ylim(0, None)
        axes.set_xlabel("delay publisher–broker and broker–subscriber in ms")
        axes.set_ylabel("latency over end-to-end delay")

    told = [
        f"QoS {qos}: " + ", ".join(f"{c.delay_pb_ms:g}-{c.delay_bs_ms:g} ms {c.ratio.estimate:.2f}" for _, c in cells)
        for qos, cells in held.items()
        if cells
    ]
    says = f"The broker at several places of one path of {delay:g} ms."
    return _drawn("5", run.run.fidelity, says, f"{says} Latency over delay: " + "; ".join(told) + ".", draw)


def _known(values: tuple[float | None, float | None, float | None]) -> tuple[float, float | None, float | None]:
    y, low, high = values
    return y if y is not None else float("nan"), low, high


def _drawn(figure: str, fidelity: str, caption: str, alternative: str, draw: Callable[[Axes], None]) -> Drawing:
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "looplab", "font.size": 9.5}):
        canvas = Canvas(figsize=SIZE_INCHES)
        axes = canvas.add_axes(PLACE)
        draw(axes)
        axes.grid(alpha=0.35, linewidth=0.6)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=3, fontsize=8.5, frameon=False)
        svg, png = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=PNG_DPI)
    return Drawing(figure, fidelity, caption, alternative, svg.getvalue(), png.getvalue())
