"""Figures 6.1 to 6.5 anew: CDFs of what was measured, with a band for the repetitions and the published points."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from looplab.experiments.loop.report import published
from looplab.experiments.loop.report.curves import METRICS, Curve, Panel, Sketch

# Told apart by line and mark, not by colour alone: the page is read in grey print, too.
STYLES = {
    "scenario0": ("#0072b2", "-", "o"),
    "scenario1": ("#000000", "--", "s"),
    "scenario2": ("#d55e00", "-", "^"),
    "scenario3": ("#cc79a7", "-.", "D"),
    "scenario4": ("#009e73", "--", "v"),
    "scenario5": ("#56b4e9", ":", "P"),
    "scenario6": ("#e69f00", ":", "X"),
}
# Beyond this ratio of p99.9 to p5, a linear axis hides either the body or the tail.
LOG_FROM = 4.0
SIZE_INCHES = (4.7, 3.3)
PLACE = (0.14, 0.145, 0.835, 0.75)
PNG_DPI = 160


def draw(sketch: Sketch) -> Panel:
    """The figure as SVG and PNG, with its caption and its text."""
    number, metric, curves = sketch.figure, sketch.metric, sketch.curves
    points = [p for p in published.points() if p.figure == number and p.metric == metric]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "looplab", "font.size": 9.5}):
        canvas = Canvas(figsize=SIZE_INCHES)
        # A fixed place: matplotlib's own layout takes as long as the drawing.
        axes = canvas.add_axes(PLACE)
        for curve in curves:
            _draw(axes, curve)
        for rank, point in enumerate(points):
            colour, _, mark = STYLES[point.scenario]
            # Ever smaller, so that a point under another one is still seen.
            axes.plot(
                point.below_us / 1000,
                point.share,
                mark,
                color=colour,
                markerfacecolor="none" if rank else "white",
                ms=11 - 2 * rank,
                mew=1.6,
                zorder=5,
                clip_on=False,
            )
        logarithmic = _wants_log(curves, [p.below_us for p in points])
        _axes(axes, metric, logarithmic)
        svg, png = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=PNG_DPI, pil_kwargs={"compress_level": 4})
    missing = [name for name in sketch.scenarios if name not in [curve.scenario for curve in curves]]
    caption = _caption(metric, logarithmic, curves, missing, bool(points))
    alternative = _alternative(metric, curves, points)
    return Panel(number, metric, sketch.fidelity, alternative, caption, svg.getvalue(), png.getvalue(), curves)


def _draw(axes: Axes, curve: Curve) -> None:
    colour, line, mark = STYLES[curve.scenario]
    x = curve.x_us / 1000
    if curve.repetitions > 1:
        axes.fill_between(x, curve.low, curve.high, step="post", color=colour, alpha=0.16, linewidth=0)
    axes.step(
        x,
        curve.share,
        line,
        where="post",
        color=colour,
        linewidth=1.6,
        label=curve.scenario.replace("scenario", "scenario "),
        marker=mark,
        markevery=max(1, x.size // 7),
        markersize=4.5,
    )


def _axes(axes: Axes, metric: str, logarithmic: bool) -> None:
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(f"{metric} in ms{' (logarithmic)' if logarithmic else ''}")
    axes.set_ylabel("share of messages below")
    axes.grid(alpha=0.35, linewidth=0.6)
    # Above the axes, where no curve can be.
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.1, 1.0),
        ncols=4,
        fontsize=8.5,
        frameon=False,
        columnspacing=1.0,
        handlelength=2.4,
        borderaxespad=0.2,
    )


def _wants_log(curves: Sequence[Curve], points_us: Sequence[float]) -> bool:
    highest = max([float(np.interp(0.999, c.share, c.x_us)) for c in curves] + list(points_us))
    lowest = min([float(np.interp(0.05, c.share, c.x_us)) for c in curves] + list(points_us))
    return lowest > 0 and highest / lowest > LOG_FROM


def _caption(metric: str, logarithmic: bool, curves: Sequence[Curve], missing: Sequence[str], points: bool) -> str:
    parts = [METRICS[metric] + "."]
    parts.append("Bands hold the middle 90 % of the repetitions' own curves.")
    if any(curve.repetitions == 1 for curve in curves):
        parts.append("A curve of one repetition has no band.")
    if points:
        parts.append("Hollow marks: what the thesis says of the scenario with the same mark.")
    if len({curve.intervals_ms for curve in curves}) > 1:
        held = "; ".join(f"{c.scenario} {', '.join(f'{i:g}' for i in c.intervals_ms)} ms" for c in curves)
        parts.append(f"The curves hold different intervals: {held}.")
    if missing:
        parts.append(f"Not run: {', '.join(missing)}.")
    return " ".join(parts)


def _alternative(metric: str, curves: Sequence[Curve], points: Sequence[published.Point]) -> str:
    said = []
    for curve in curves:
        p50, p95 = (float(np.interp(q, curve.share, curve.x_us)) / 1000 for q in (0.5, 0.95))
        said.append(f"{curve.scenario}: half of {curve.count} messages below {p50:.3g} ms, 95 % below {p95:.3g} ms")
    said += [f"published for {p.scenario}: {p.share:.0%} below {p.below_us / 1000:g} ms" for p in points]
    return f"Cumulative distribution of {metric}. " + "; ".join(said) + "."
