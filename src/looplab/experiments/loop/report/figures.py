"""Draw figures 6.1 to 6.5: CDFs of what was measured, with a band for the repetitions and the published points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from looplab.experiments.loop.report import cells_of, published
from looplab.report.drawing import STYLES, Drawing, Plot, shares
from looplab.report.samples import Measured, Runs
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
    """A CDF over `x_us`: of all values, and the band of the repetitions' own CDFs."""

    scenario: str
    count: int
    repetitions: int
    intervals_ms: tuple[float, ...]
    x_us: Floats
    share: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Sketch:
    """A figure to be drawn; `scenarios` are all that it should hold."""

    figure: str
    metric: str
    fidelity: str
    curves: Sequence[Curve]
    scenarios: Sequence[str]

    def draw(self) -> Drawing:
        """Return the figure with its caption and its text."""
        metric, curves = self.metric, self.curves
        points = [p for p in published.points() if p.figure == self.figure and p.metric == metric]
        logarithmic = _wants_log(curves, [p.below_us for p in points])

        def put(axes: Axes) -> None:
            for curve in curves:
                _draw(axes, curve)
            for rank, point in enumerate(points):
                colour, _, mark = STYLE_OF[point.scenario]
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
            shares(axes, metric, "share of messages below", logarithmic=logarithmic)

        missing = [name for name in self.scenarios if name not in [curve.scenario for curve in curves]]
        caption = _caption(metric, curves, missing, bool(points))
        name = f"figure_{self.figure.replace('.', '_')}_{metric}_{self.fidelity}"
        return Plot(name, self.figure, self.fidelity, caption, _alternative(metric, curves, points), put).draw()


def sketches(runs: Runs, fidelity: str) -> list[Sketch]:
    """Both metrics of each figure for which at least one run is here."""
    found = []
    for figure in published.figures():
        held = [runs[name] for name in figure.scenarios if name in runs]
        for metric in METRICS:
            curves = [curve for m in held if (curve := curve_of(m, metric)) is not None]
            if curves:
                found.append(Sketch(figure.number, metric, fidelity, curves, figure.scenarios))
    return found


def curve_of(measured: Measured, metric: str) -> Curve | None:
    """All cells of the run at QoS 0 as one CDF; None where nothing was measured."""
    cells = [cell for (_, qos), cell in cells_of(measured).items() if qos == 0 and cell.measured]
    if not cells:
        return None
    values = np.sort(np.concatenate([cell.latency_us[metric] for cell in cells]))
    shares = np.linspace(0, 1, LINE_POINTS)
    # Denser towards the tail, to the very maximum.
    shares = np.unique(np.concatenate([shares, 1 - np.geomspace(1 / values.size, 0.05, 60), [1.0]]))
    x = np.unique(np.quantile(values, shares))
    own = _own_curves([(cell.repetition_of, cell.latency_us[metric]) for cell in cells], x)
    low, high = np.quantile(own, BAND, axis=0)
    intervals = tuple(sorted(cell.interval_ms for cell in cells))
    share = np.searchsorted(values, x, side="right") / values.size
    return Curve(measured.run.scenario, values.size, own.shape[0], intervals, x, share, low, high)


def _own_curves(cells: Sequence[tuple[NDArray[np.int64], Floats]], x: Floats) -> Floats:
    """The CDF of each repetition at `x`, where repetition k is that of all intervals together."""
    size = 1 + max(int(repetition.max()) for repetition, _ in cells)
    held = np.zeros(size * (x.size + 1), dtype=np.int64)
    for repetition, values in cells:
        slots = repetition.astype(np.int64) * (x.size + 1) + np.searchsorted(x, values)
        held += np.bincount(slots, minlength=held.size)
    counts = np.cumsum(held.reshape(size, -1), axis=1)
    counts = counts[counts[:, -1] > 0]
    own: Floats = counts[:, :-1] / counts[:, -1:]
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


def _wants_log(curves: Sequence[Curve], points_us: Sequence[float]) -> bool:
    highest = max([float(np.interp(0.999, c.share, c.x_us)) for c in curves] + list(points_us))
    lowest = min([float(np.interp(0.05, c.share, c.x_us)) for c in curves] + list(points_us))
    return lowest > 0 and highest / lowest > LOG_FROM


def _caption(metric: str, curves: Sequence[Curve], missing: Sequence[str], points: bool) -> str:
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
