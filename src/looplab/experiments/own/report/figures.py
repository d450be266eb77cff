"""Draw T and its parts: how many requests took how long, and where the time goes, by arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from looplab.experiments.own import OwnCell
from looplab.report.drawing import STYLES, Curve, Plot, shares
from looplab.report.samples import MeasuredRuns, Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {"broker_in": "broker, in", "device": "device", "broker_out": "broker, out"}
TITLES = {"How long answers take": ("T",), "Where the time goes": ("parts",)}


def sketches(runs: Runs) -> list[Plot]:
    """Return the distribution of T with a curve for each arm, and that of its parts for each arm."""
    curves = {name: curve for name, run in runs.items() if (curve := _curve(name, run, "T"))}
    if not curves:
        return []
    made = [_plot(runs[next(iter(curves))], "T", "T, at the broker's interface.", [*curves.values()], "T")]
    for name in curves:
        parts = [curve for part, words in PARTS.items() if (curve := _curve(words, runs[name], part))]
        made.append(_plot(runs[name], "parts", f"{name}: the three parts of T.", parts, f"parts_{name}"))
    return made


def context(measured: Sequence[MeasuredRuns]) -> Mapping[str, Any]:
    """Return the causes that the packets show, by run."""
    return {"causes": [(str(m), one) for m in measured for cell in _cells(m) for one in cell.causes or ()]}


def _cells(run: MeasuredRuns) -> Sequence[Any]:
    return [cell for cell in run.cells.values() if isinstance(cell, OwnCell)]


def _curve(name: str, run: MeasuredRuns, metric: str) -> Curve | None:
    """Return a time of each request; None if none is known."""
    known = np.concatenate([np.empty(0), *(cell.latency_us[metric] for cell in _cells(run))])
    known = np.sort(known[np.isfinite(known)])
    lost = sum(cell.sent for cell in _cells(run)) - known.size
    return Curve(name, [np.pad(known, (0, lost), constant_values=np.inf)]) if known.size else None


def _plot(run: MeasuredRuns, figure: str, caption: str, curves: Sequence[Curve], name: str) -> Plot:
    words = "; ".join(f"{curve.name}: half {curve.below(0.5)}" for curve in curves)
    return replace(Plot.of(run, name, caption, f"{words}.", partial(_put, curves), legend_columns=3), figure=figure)


def _put(curves: Sequence[Curve], axes: Axes) -> None:
    for at, curve in enumerate(curves):
        curve.put(axes, STYLES[at % len(STYLES)])
    shares(axes, "time", "share of the requests", log=True)
