"""Draw the paper's figures from stored runs: processed requests, times and errors over the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from looplab.experiments.middleware import NAME, NODES, Placement
from looplab.experiments.middleware.report import PROCESSED, MeasuredLoad
from looplab.experiments.middleware.report.claims import MOST_ERRORS
from looplab.experiments.middleware.report.placements import optima, places
from looplab.report.drawing import LinePlot, Plot, PlotPoint
from looplab.report.samples import MeasuredRuns

TITLES = {
    "Figures 2 and 3: processed requests, bare metal and container": ("2", "3"),
    "Figures 4 and 5: time of a request at the client, bare metal and container": ("4", "5"),
    "Figures 10 and 12: processed requests and errors, several nodes": ("10", "12"),
    "Figure 14: time of a request at the client, several nodes": ("14",),
}
# Room for percentages on the left and two lines of names above.
_PLACE, _COLUMNS = (0.19, 0.145, 0.785, 0.70), 2
_QUARTILES = "Points are medians, bars the quartiles"
_COUNTED = f"{_QUARTILES} of the repetitions. Dotted lines: the optimal loads."
_TIMED = f"{_QUARTILES} of the requests that succeeded, means of the repetitions."
_PROCESSED = "requests processed in a second"


def sketches(runs: Mapping[str, MeasuredRuns]) -> list[Plot]:
    """Return the figures of the runs of one fidelity, by scenario; those without cells are left out."""
    made = [one(runs[name]) for name, one in ((NAME, _cores), (NODES, _nodes)) if name in runs]
    return [plot for plots in made for plot in plots]


def context(measured: Sequence[MeasuredRuns]) -> dict[str, Any]:
    """Return what the page shows beside findings and cells: optimal loads."""
    return {
        "sections": (("claims", "Findings"), ("optima", "Optimal loads"), ("cells", "Cells")),
        "optima": [(m, optima(m)) for m in measured],
    }


def _cores(run: MeasuredRuns) -> Iterator[Plot]:
    for container, counted, timed in ((False, "2", "4"), (True, "3", "5")):
        where = "Container" if container else "Bare metal"
        draw = partial(_plots, run, [place for place in places(run) if place.container == container])
        yield from draw(counted, f"{where}. {_COUNTED}", quartiles, _PROCESSED, best=True)
        yield from draw(timed, f"{where}. {_TIMED}", _times, "ms from sent to answered")


def _nodes(run: MeasuredRuns) -> Iterator[Plot]:
    draw = partial(_plots, run, [*places(run)])
    yield from draw("10", _COUNTED, quartiles, _PROCESSED, best=True)
    caption = (
        f"Share of the requests, unfinished ones included, mean of the repetitions. The line is at {MOST_ERRORS:.0%}."
    )
    yield from draw("12", caption, _failed, "failed requests", levels=(MOST_ERRORS,), percent=True)
    yield from draw("14", _TIMED, _times, "median ms from sent to answered")


def _plots(
    run: MeasuredRuns,
    wanted: Sequence[Placement],
    figure: str,
    caption: str,
    mark: Callable[[MeasuredLoad], PlotPoint | None],
    y_label: str,
    *,
    best: bool = False,
    **more: Any,
) -> list[Plot]:
    """Return a figure with a line for each placement that is `wanted`; `mark` is what a cell is there."""
    marks = {str(place): [point for cell in places(run)[place] if (point := mark(cell))] for place in wanted}
    series = {name: points for name, points in marks.items() if points}
    optimal = {str(one.place): float(one.load) for one in optima(run) if best and str(one.place) in series}
    lines = LinePlot(series, "devices", y_label, best=optimal, **more)
    return lines.plot(run, figure, caption, place=_PLACE, legend_columns=_COLUMNS)


def quartiles(cell: MeasuredLoad) -> PlotPoint:
    values = [one.figure(PROCESSED) or 0.0 for one in cell.every]
    return _box(cell, *np.quantile(values, (0.25, 0.5, 0.75)))


def _times(cell: MeasuredLoad) -> PlotPoint | None:
    each = [[one.sent_response.get(name) for name in ("p25", "p50", "p75")] for one in cell.every]
    known = [times for times in each if None not in times]
    return _box(cell, *(fmean(of) / 1000 for of in zip(*known, strict=True))) if known else None


def _box(cell: MeasuredLoad, first: float, middle: float, third: float) -> PlotPoint:
    return PlotPoint(cell.devices, middle, middle - first, third - middle)


def _failed(cell: MeasuredLoad) -> PlotPoint:
    return PlotPoint(cell.devices, fmean(one.failed_share or 0.0 for one in cell.every))
