"""Draw figures 6.1 to 6.5: CDFs of what was measured, with a band for the repetitions and the published points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from looplab.experiments.loop.report import MeasuredLoop, cells_of, published
from looplab.report.drawing import STYLES, Plot, shares
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = {"R": "R, getting the measurement from the robot", "O": "O, MQTT, network and containers"}
LINE_POINTS = 240
# The band holds the repetitions' own curves, except their highest and lowest 5 %.
BAND = (0.05, 0.95)
STYLE_OF = {f"scenario{number}": style for number, style in enumerate(STYLES)}
# Beyond this ratio of p99.9 to p5, a linear axis hides either the body or the tail.
LOG_FROM = 4.0


@dataclass(frozen=True)
class Curve:
    """A CDF over `x_us`: of all `count` messages that were sent, and the band of the repetitions' own CDFs.

    A lost message has no latency: with losses the curve ends below 1.
    """

    scenario: str
    count: int
    repetitions: int
    intervals_ms: tuple[float, ...]
    x_us: Floats
    share: Floats
    low: Floats
    high: Floats

    def quantile_us(self, share: float) -> float:
        """Return a quantile, the largest value where fewer messages were answered."""
        return float(np.interp(share, self.share, self.x_us))

    def below(self, share: float) -> str:
        """Return a quantile in words."""
        return f"below {self.quantile_us(share) / 1000:.3g} ms" if share <= self.share[-1] else "not all answered"


def sketches(runs: Runs, fidelity: str) -> list[Plot]:
    """Return both metrics of each figure for which at least one run is here."""
    drawable = []
    for figure in published.figures():
        for metric in METRICS:
            named = [runs[name] for name in figure.scenarios if name in runs]
            curves = [curve for m in named if (curve := curve_of(m, metric)) is not None]
            points = [p for p in published.points() if p.figure == figure.number and p.metric == metric]
            if curves:
                missing = sorted({*figure.scenarios} - {curve.scenario for curve in curves})
                name = f"figure_{figure.number.replace('.', '_')}_{metric}_{fidelity}"
                words = _caption(metric, curves, points, missing), _alternative(metric, curves, points)
                put = partial(_put, metric, curves, points)
                drawable.append(Plot(name, figure.number, fidelity, *words, put))
    return drawable


def _caption(
    metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint], missing: Sequence[str]
) -> str:
    parts = [METRICS[metric] + "."]
    if points:
        parts.append("Hollow marks: the thesis.")
    if len({curve.intervals_ms for curve in curves}) > 1:
        intervals = [f"{c.scenario} {', '.join(f'{i:g}' for i in c.intervals_ms)} ms" for c in curves]
        parts.append(f"The curves hold different intervals: {'; '.join(intervals)}.")
    if missing:
        parts.append(f"Not run: {', '.join(missing)}.")
    return " ".join(parts)


def _alternative(metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint]) -> str:
    texts = [f"{c.scenario}: half of {c.count} messages {c.below(0.5)}, 95 % {c.below(0.95)}" for c in curves]
    texts += [f"published for {p.scenario}: {p.text}" for p in points]
    return f"Cumulative distribution of {metric}. {'; '.join(texts)}."


def _put(metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint], axes: Axes) -> None:
    """Draw the curves of one metric, with what the thesis says of them."""
    for curve in curves:
        _draw(axes, curve)
    for rank, point in enumerate(points):
        colour, _, mark = STYLE_OF[point.scenario]
        # Ever smaller, so that a point under another one is still seen.
        axes.plot(
            point.below_us / 1000,
            point.height,
            mark,
            color=colour,
            markerfacecolor="none" if rank else "white",
            ms=11 - 2 * rank,
            mew=1.6,
            zorder=5,
            clip_on=False,
        )
    below_us = [point.below_us for point in points]
    highest = max([curve.quantile_us(0.999) for curve in curves] + below_us)
    lowest = min([curve.quantile_us(0.05) for curve in curves] + below_us)
    logarithmic = lowest > 0 and highest / lowest > LOG_FROM
    shares(axes, metric, "share of messages below", logarithmic=logarithmic)


def curve_of(measured: MeasuredRuns, metric: str) -> Curve | None:
    """Return all cells of the run at QoS 0 as one CDF; None where nothing was measured."""
    cells = [cell for (_, qos), cell in cells_of(measured).items() if qos == 0 and cell.measured]
    if not cells:
        return None
    values = np.sort(np.concatenate([cell.latency_us[metric] for cell in cells]))
    at = np.linspace(0, 1, LINE_POINTS)
    # Denser towards the tail, to the very maximum.
    at = np.unique(np.concatenate([at, 1 - np.geomspace(1 / values.size, 0.05, 60), [1.0]]))
    x = np.unique(np.quantile(values, at))
    own = _own_curves(cells, metric, x)
    low, high = np.quantile(own, BAND, axis=0)
    intervals = tuple(sorted(cell.interval_ms for cell in cells))
    sent = sum(cell.sent for cell in cells)
    share = np.searchsorted(values, x, side="right") / sent
    return Curve(measured.run.scenario, sent, own.shape[0], intervals, x, share, low, high)


def _own_curves(cells: Sequence[MeasuredLoop], metric: str, x: Floats) -> Floats:
    """Return the CDF of each repetition at `x`, where repetition k is that of all intervals together."""
    size = 1 + max(int(cell.response_repetition.max()) for cell in cells)
    bins = np.zeros(size * (x.size + 1), dtype=np.int64)
    sent = np.zeros(size, dtype=np.int64)
    for cell in cells:
        slots = cell.repetition_of.astype(np.int64) * (x.size + 1) + np.searchsorted(x, cell.latency_us[metric])
        bins += np.bincount(slots, minlength=bins.size)
        sent += np.bincount(cell.response_repetition, minlength=size)
    counts = np.cumsum(bins.reshape(size, -1), axis=1)[sent > 0]
    own: Floats = counts[:, :-1] / sent[sent > 0][:, np.newaxis]
    return own


def _draw(axes: Axes, curve: Curve) -> None:
    colour, line, mark = STYLE_OF[curve.scenario]
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
