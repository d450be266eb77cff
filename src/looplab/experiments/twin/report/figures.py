"""Draw the paper's three figures from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.document import queue
from looplab.experiments.twin.parameters import CENTRAL, DISTRIBUTED
from looplab.experiments.twin.report import MeasuredTwin
from looplab.experiments.twin.report.brokers import groups
from looplab.experiments.twin.report.claims import by_mode
from looplab.report.drawing import STYLES, LinePlot, Plot, PlotPoint
from looplab.report.samples import NUMBER, WORD, MeasuredRuns, key_types, lines_of, read_csv
from looplab.system.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Seconds since a cell's first message, and the messages that wait then.
Curve = tuple[list[float], list[int]]
# As many points as a figure can show.
POINTS = 400
_COLUMNS = {**key_types(TwinCell), "outcome": WORD, "sent_ns": NUMBER, "committed_ns": NUMBER}
# The figures under each heading.
TITLES = {
    "Figure 1: the queue over time": ("1",),
    "Figures 2 and 3: the time of each broker": ("2", "3"),
}
# Two lines of legend fit above.
_PLACE = (0.14, 0.145, 0.835, 0.68)
# A queue that is shorter than this is drawn near the axis, not as high as the figure.
_LEAST_HEIGHT = 20


def sketches(runs: Mapping[str, MeasuredRuns]) -> list[Plot]:
    """Return the figures for which the runs of one fidelity, by scenario, have cells."""
    plots = _by_interval(runs["twin"]) if "twin" in runs else []
    if "twin-brokers" in runs:
        plots += [*_times(runs["twin-brokers"], "2", CENTRAL), *_times(runs["twin-brokers"], "3", DISTRIBUTED)]
    return plots


def _by_interval(run: MeasuredRuns) -> list[Plot]:
    """Return the queue length over time, a line for each interval, in the write mode of the run's fidelity."""
    mode, cells = next(iter(by_mode(run).items()), ("", []))
    # Of several runs the newest one, of several repetitions the first.
    first = {cell.key: cell for cell in cells if cell.repetition == 0 and cell.key in run.run.cells}
    if not first:
        return []
    samples = read_csv(run.run.path / "samples.csv", _COLUMNS)
    ordered = sorted(first.values(), key=lambda cell: -cell.interval_ms)
    named = {f"{cell.interval_ms:g} ms": _curve(samples, cell) for cell in ordered}
    longest = ", ".join(f"{name} {max(length, default=0)}" for name, (_at_s, length) in named.items())
    why = f"Write mode {mode}, one broker; a line for each interval between two messages."
    text = f"Longest queue in messages: {longest}."
    return [Plot.of(run, "1", why, text, partial(_put_queues, named), place=_PLACE)]


def _put_queues(named: Mapping[str, Curve], axes: Axes) -> None:
    for at, (name, (at_s, length)) in enumerate(named.items()):
        colour, line, _mark = STYLES[at % len(STYLES)]
        axes.plot(at_s, length, color=colour, linestyle=line, linewidth=1.5, label=name)
    axes.set_xlim(0, None)
    longest = max(max(length, default=0) for _at_s, length in named.values())
    axes.set_ylim(0, max(_LEAST_HEIGHT, 1.05 * longest))
    axes.set_xlabel("time since the first message in s")
    axes.set_ylabel("sent and not yet stored")


def _times(run: MeasuredRuns, figure: str, placement: str) -> list[Plot]:
    """Return the time of each broker over the repetitions, a series for each number of brokers."""
    compared = [group for group in groups(run).values() if group.brokers == 1 or group.placement == placement]
    if not any(group.brokers > 1 for group in compared):
        return []
    series = {
        plural(group.brokers, "broker"): [_mean(at, times_s) for at, times_s in enumerate(group.times_s, 1)]
        for group in compared
    }
    where = "All in one machine" if placement == CENTRAL else "A machine each"
    caption = f"{where}: from the first message sent to the last one stored. Bars are from the shortest repetition to "
    caption += "the longest, marks their mean."
    return LinePlot(series, "broker", "time in s").plot(run, figure, caption)


def _mean(at: int, times_s: Sequence[float]) -> PlotPoint:
    mean = fmean(times_s)
    return PlotPoint(at, mean, mean - min(times_s), max(times_s) - mean)


def _curve(samples: pd.DataFrame, cell: MeasuredTwin) -> Curve:
    rows = lines_of(samples, cell)
    sent_ns = rows["sent_ns"].tolist()
    start_ns = min(sent_ns, default=0)
    at_ns, length = queue(sent_ns, rows.loc[rows["outcome"] == "stored", "committed_ns"].tolist())
    shown = np.unique(np.linspace(0, len(at_ns) - 1, POINTS).astype(int)) if sent_ns else []
    return [(at_ns[at] - start_ns) / 1e9 for at in shown], [length[at] for at in shown]
