"""Draw figures 6.1 to 6.5: CDFs of what was measured, with a band for the repetitions and the published points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from looplab.experiments.loop.report import cells_of, published
from looplab.report.drawing import STYLES, Curve, Plot, shares
from looplab.report.samples import MeasuredRuns, Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = {"R": "R, getting the measurement from the robot", "O": "O, MQTT, network and containers"}
STYLE_OF = {f"scenario{number}": style for number, style in enumerate(STYLES)}
# Beyond this ratio of p99.9 to p5, a linear axis hides either the body or the tail.
LOG_FROM = 4.0


@dataclass(frozen=True)
class ScenarioCurve(Curve):
    """A scenario's latencies at all of these intervals."""

    intervals_ms: tuple[float, ...]


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


def _caption(metric: str, curves: Sequence[ScenarioCurve], points: Sequence[published.PublishedPoint]) -> str:
    parts = [METRICS[metric] + "."]
    if points:
        parts.append("Hollow marks: the thesis.")
    if len({curve.intervals_ms for curve in curves}) > 1:
        intervals = [f"{c.name} {', '.join(f'{i:g}' for i in c.intervals_ms)} ms" for c in curves]
        parts.append(f"The curves hold different intervals: {'; '.join(intervals)}.")
    return " ".join(parts)


def _alternative(metric: str, curves: Sequence[ScenarioCurve], points: Sequence[published.PublishedPoint]) -> str:
    texts = [f"{c.name}: half of {c.values_us.size} messages {c.below(0.5)}, 95 % {c.below(0.95)}" for c in curves]
    texts += [f"published for {p.scenario}: {p.text}" for p in points]
    return f"Cumulative distribution of {metric}. {'; '.join(texts)}."


def _put(metric: str, curves: Sequence[ScenarioCurve], points: Sequence[published.PublishedPoint], axes: Axes) -> None:
    """Draw the curves of one metric, with what the thesis says of them."""
    for curve in curves:
        curve.put(axes, STYLE_OF[curve.name])
    measured = {curve.name for curve in curves}
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
    highest = max([float(np.quantile(curve.answered_us, 0.999)) for curve in curves] + below_us)
    lowest = min([float(np.quantile(curve.answered_us, 0.05)) for curve in curves] + below_us)
    logarithmic = lowest > 0 and highest / lowest > LOG_FROM
    shares(axes, metric, "share of messages below", log=logarithmic)


def curve_of(measured: MeasuredRuns, metric: str) -> ScenarioCurve | None:
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
    return ScenarioCurve(measured.run.scenario, each, tuple(sorted(cell.interval_ms for cell in cells)))
