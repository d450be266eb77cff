"""Draw T and its parts: how many requests took how long, and where the time goes, by arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from looplab.experiments.own import OwnCell
from looplab.report.drawing import STYLES, Plot, shares
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {"broker_in": "broker, in", "device": "device", "broker_out": "broker, out"}
TITLES = {"How long answers take": ("T",), "Where the time goes": ("parts",)}
POINTS = 240


def sketches(runs: Runs) -> list[Plot]:
    """Return the distribution of T with a curve for each arm, and that of its parts for each arm."""
    curves = {name: us for name, run in runs.items() if (us := _measured(run, "T")).size}
    if not curves:
        return []
    made = [_plot(runs[next(iter(curves))], "T", "T, at the broker's interface.", curves, "T")]
    for name in curves:
        parts = {words: us for part, words in PARTS.items() if (us := _measured(runs[name], part)).size}
        made.append(_plot(runs[name], "parts", f"{name}: the three parts of T.", parts, f"parts_{name}"))
    return made


def context(measured: Sequence[MeasuredRuns]) -> Mapping[str, Any]:
    """Return the causes that the packets show, by run."""
    return {"causes": [(str(m), one) for m in measured for cell in _cells(m) for one in cell.causes or ()]}


def _cells(run: MeasuredRuns) -> Sequence[Any]:
    return [cell for cell in run.cells.values() if isinstance(cell, OwnCell)]


def _measured(run: MeasuredRuns, metric: str) -> Floats:
    """Return a time of each request in us, sorted; a lost one's is infinite. Empty if none is known."""
    known = np.concatenate([np.empty(0), *(cell.latency_us[metric] for cell in _cells(run))])
    known = np.sort(known[np.isfinite(known)])
    sent = sum(cell.sent for cell in _cells(run)) if known.size else 0
    return np.pad(known, (0, sent - known.size), constant_values=np.inf)


def _plot(run: MeasuredRuns, figure: str, caption: str, curves: Mapping[str, Floats], name: str) -> Plot:
    words = [f"{one}: half below {np.median(us[np.isfinite(us)]) / 1000:.3g} ms" for one, us in curves.items()]
    plot = Plot.of(run, name, caption, f"{'; '.join(words)}.", partial(_put, curves), legend_columns=3)
    return replace(plot, figure=figure)


def _put(curves: Mapping[str, Floats], axes: Axes) -> None:
    """Draw the curves; a lost request is never reached, so its curve ends below 1."""
    for at, (name, us) in enumerate(curves.items()):
        places = np.unique(np.linspace(0, np.isfinite(us).sum() - 1, POINTS).astype(int))
        colour, line, _mark = STYLES[at % len(STYLES)]
        heights = (places + 1) / us.size
        axes.step(us[places] / 1000, heights, where="post", color=colour, linestyle=line, linewidth=1.5, label=name)
    shares(axes, "time", "share of the requests", log=True)
