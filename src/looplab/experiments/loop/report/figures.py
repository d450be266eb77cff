"""Draw figures 6.1 to 6.5: CDFs of what was measured, with a band for the repetitions and the published points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from looplab.experiments.loop.report import cells_of, published
from looplab.report.cell import quantile
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
    """A scenario's latencies in us, each repetition's sorted; a lost message's is infinite: so the CDF ends below 1."""

    scenario: str
    intervals_ms: tuple[float, ...]
    by_repetition: Sequence[Floats]

    @cached_property
    def values_us(self) -> Floats:
        """The latencies of all messages that were sent, sorted."""
        return np.sort(np.concatenate(self.by_repetition))

    def quantile_us(self, share: float) -> float:
        """Return a quantile of those that were answered."""
        return float(np.quantile(self.values_us[np.isfinite(self.values_us)], share))

    def below(self, share: float) -> str:
        """Return a quantile of all in words."""
        value_us = quantile(self.values_us, share)
        return f"below {value_us / 1000:.3g} ms" if np.isfinite(value_us) else "not all answered"


def sketches(runs: Runs, fidelity: str) -> list[Plot]:
    """Return both metrics of each figure for which at least one run is here."""
    drawable = []
    for figure in published.figures():
        for metric in METRICS:
            named = [runs[name] for name in figure.scenarios if name in runs]
            curves = [curve for m in named if (curve := curve_of(m, metric)) is not None]
            points = [p for p in published.points() if p.figure == figure.number and p.metric == metric]
            if curves:
                name = f"figure_{figure.number.replace('.', '_')}_{metric}_{fidelity}"
                words = _caption(metric, curves, points), _alternative(metric, curves, points)
                put = partial(_put, metric, curves, points)
                drawable.append(Plot(name, figure.number, fidelity, *words, put))
    return drawable


def _caption(metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint]) -> str:
    parts = [METRICS[metric] + "."]
    if points:
        parts.append("Hollow marks: the thesis.")
    if len({curve.intervals_ms for curve in curves}) > 1:
        intervals = [f"{c.scenario} {', '.join(f'{i:g}' for i in c.intervals_ms)} ms" for c in curves]
        parts.append(f"The curves hold different intervals: {'; '.join(intervals)}.")
    return " ".join(parts)


def _alternative(metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint]) -> str:
    texts = [f"{c.scenario}: half of {c.values_us.size} messages {c.below(0.5)}, 95 % {c.below(0.95)}" for c in curves]
    texts += [f"published for {p.scenario}: {p.text}" for p in points]
    return f"Cumulative distribution of {metric}. {'; '.join(texts)}."


def _put(metric: str, curves: Sequence[Curve], points: Sequence[published.PublishedPoint], axes: Axes) -> None:
    """Draw the curves of one metric, with what the thesis says of them."""
    for curve in curves:
        _draw(axes, curve)
    measured = {curve.scenario for curve in curves}
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
            label=None if point.scenario in measured else f"thesis, {point.scenario.removeprefix('scenario')}",
        )
    below_us = [point.below_us for point in points]
    highest = max([curve.quantile_us(0.999) for curve in curves] + below_us)
    lowest = min([curve.quantile_us(0.05) for curve in curves] + below_us)
    logarithmic = lowest > 0 and highest / lowest > LOG_FROM
    shares(axes, metric, "share of messages below", log=logarithmic)


def curve_of(measured: MeasuredRuns, metric: str) -> Curve | None:
    """Return all cells of the run at QoS 0 as one CDF; None where nothing was measured.

    Repetition k is that of all intervals together.
    """
    cells = [cell for (_, qos), cell in cells_of(measured).items() if qos == 0 and cell.measured]
    if not cells:
        return None
    sent = Counter(np.concatenate([cell.response_repetition for cell in cells]).tolist())
    repetitions = np.concatenate([cell.repetition_of for cell in cells])
    values = np.concatenate([cell.latency_us[metric] for cell in cells])
    answered = {number: np.sort(values[repetitions == number]) for number in sent}
    each = [np.pad(own, (0, sent[number] - own.size), constant_values=np.inf) for number, own in answered.items()]
    return Curve(measured.run.scenario, tuple(sorted(cell.interval_ms for cell in cells)), each)


def _draw(axes: Axes, curve: Curve) -> None:
    colour, line, mark = STYLE_OF[curve.scenario]
    answered = curve.values_us[np.isfinite(curve.values_us)]
    # Denser towards the tail, to the very maximum.
    tail = 1 - np.geomspace(1 / answered.size, 0.05, 60)
    x = np.unique(np.quantile(answered, [*np.linspace(0, 1, LINE_POINTS), *tail]))
    each = [np.searchsorted(own, x, side="right") / own.size for own in curve.by_repetition]
    low, high = np.quantile(each, BAND, axis=0)
    # The band of one repetition has no height.
    axes.fill_between(x / 1000, low, high, step="post", color=colour, alpha=0.16, linewidth=0)
    axes.step(
        x / 1000,
        np.searchsorted(curve.values_us, x, side="right") / curve.values_us.size,
        line,
        where="post",
        color=colour,
        linewidth=1.6,
        label=curve.scenario.replace("scenario", "scenario "),
        marker=mark,
        markevery=max(1, x.size // 7),
        markersize=4.5,
    )
