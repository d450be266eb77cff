"""Draw the paper's figures from stored runs: processed requests, times, differences and errors over the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from looplab.experiments.middleware import NAME, NODES, place_text
from looplab.experiments.middleware.report import MeasuredLoad, Place, by_place, usable
from looplab.experiments.middleware.report.claims import MOST_ERRORS
from looplab.experiments.middleware.report.comparisons import CLIENT, PROCESSED, SERVER, container_pairs, difference
from looplab.experiments.middleware.report.optimum import optima
from looplab.report.drawing import STYLES, Drawing, Plot, Point, errorbars, point
from looplab.report.samples import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "Figures 2 and 3: processed requests, bare metal and container": ("2", "3"),
    "Figures 4 and 5: time of a request at the client, bare metal and container": ("4", "5"),
    "Figures 6, 7 and 8: bare metal against container": ("6", "7", "8"),
    "Figures 10, 11 and 12: processed requests and errors, several nodes": ("10", "12"),
    "Figures 13 and 14: time of a request at the client, several nodes": ("13", "14"),
}
# Room for percentages on the left and two lines of names above.
_PLACE = (0.19, 0.145, 0.785, 0.70)
_QUARTILES = "Points are medians, bars the quartiles"
_COUNTED, _TIMED = f"{_QUARTILES} of the repetitions. Dotted lines: the optimal loads.", f"{_QUARTILES} of all requests"
_PROCESSED = "requests processed in a second"
_GREY = "#777777"
# What a cell is in a figure; None where it has no such value.
Mark = Callable[[MeasuredLoad], Point | None]


@dataclass(frozen=True)
class Sketch:
    """A figure to be drawn: named series over the devices; `best` are optimal loads by series, `level` a line."""

    figure: str
    fidelity: str
    series: Mapping[str, Sequence[Point]]
    y_label: str
    caption: str
    best: Mapping[str, float] = field(default_factory=dict)
    level: float | None = None
    share: bool = False

    def draw(self) -> Drawing:
        name, text = f"middleware_figure_{self.figure}_{self.fidelity}", self._alternative()
        return Plot(name, self.figure, self.fidelity, self.caption, text, self._put, _PLACE, legend_columns=2).draw()

    def _alternative(self) -> str:
        form = ".1%" if self.share else ".4g"
        each = [
            f"{name}: " + ", ".join(f"{p.y:{form}} at {p.x:g}" for p in points) for name, points in self.series.items()
        ]
        best = "".join(f" Optimal load, {name}: {load:g} devices." for name, load in self.best.items())
        return f"{self.y_label} over the number of devices. {'; '.join(each)}.{best}"

    def _put(self, axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        if self.level is not None:
            axes.axhline(self.level, color=_GREY, linewidth=0.9)
        for at, (name, points) in enumerate(self.series.items()):
            style = STYLES[at % len(STYLES)]
            if name in self.best:
                axes.axvline(self.best[name], color=style[0], linestyle=":", linewidth=1.1)
            errorbars(axes, name, points, style, markersize=4.5, linewidth=1.5)
        axes.set_xlabel("devices")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_ylabel(self.y_label)
        if self.share:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            axes.set_ylim(0, None)


def sketches(runs: Mapping[str, Measured]) -> list[Sketch]:
    """Return the figures of the runs of one fidelity, by scenario; those without cells are left out."""
    each = [one(runs[name]) for name, one in ((NAME, _cores), (NODES, _nodes)) if name in runs]
    return [sketch for one in each for sketch in one if sketch.series]


def _cores(run: Measured) -> Iterator[Sketch]:
    fidelity, best = run.run.fidelity, {place: one.devices.estimate for place, one in optima(run).items()}
    for container, counted, timed in ((False, "2", "4"), (True, "3", "5")):
        places = {place: cells for place, cells in by_place(usable(run)).items() if place[0] == container}
        loads = {_cores_text(place): best[place] for place in places}
        where = "Container" if container else "Bare metal"
        quartiles = _points(places, _cores_text, _quartiles)
        yield Sketch(counted, fidelity, quartiles, _PROCESSED, f"{where}. {_COUNTED}", best=loads)
        times = _points(places, _cores_text, _times)
        yield Sketch(timed, fidelity, times, "ms from sent to answered", f"{where}. {_TIMED} that succeeded.")
    for figure, value, what in (
        ("6", PROCESSED, "requests processed"),
        ("7", SERVER, "time in the middleware"),
        ("8", CLIENT, "time at the client"),
    ):
        series: dict[str, list[Point]] = {}
        for pair in container_pairs(usable(run)):
            share = difference(pair, value)
            if not math.isnan(share.estimate):
                series.setdefault(_cores_text(pair[0].place), []).append(point(pair[0].devices, share))
        caption = f"(bare metal - container) / bare metal of the {what}. Bars are 95 % intervals."
        yield Sketch(figure, fidelity, series, "difference", caption, level=0.0, share=True)


def _nodes(run: Measured) -> Iterator[Sketch]:
    fidelity, places = run.run.fidelity, by_place(usable(run))
    best = {_nodes_text(place): one.devices.estimate for place, one in optima(run).items()}
    counted, failed, mean, times = (_points(places, _nodes_text, mark) for mark in (_quartiles, _failed, _mean, _times))
    yield Sketch("10", fidelity, counted, _PROCESSED, _COUNTED, best=best)
    caption = f"Share of the ended requests, mean of the repetitions. The line is at {MOST_ERRORS:.0%}."
    yield Sketch("12", fidelity, failed, "failed requests", caption, level=MOST_ERRORS, share=True)
    caption = "Mean over all requests that succeeded."
    yield Sketch("13", fidelity, mean, "mean ms from sent to answered", caption)
    yield Sketch("14", fidelity, times, "median ms from sent to answered", f"{_TIMED} that succeeded.")


def _points(
    places: Mapping[Place, Sequence[MeasuredLoad]], name: Callable[[Place], str], mark: Mark
) -> dict[str, list[Point]]:
    """Return the points of each place that has some."""
    series = {name(place): [p for cell in cells if (p := mark(cell))] for place, cells in places.items()}
    return {name: points for name, points in series.items() if points}


def _cores_text(place: Place) -> str:
    return place_text(*place).partition(",")[0]


def _nodes_text(place: Place) -> str:
    _container, balancer, nodes, cores = place
    return f"{nodes} x {cores}{'' if balancer else ', no balancer'}"


def _quartiles(cell: MeasuredLoad) -> Point | None:
    return _box(cell, cell.quartiles())


def _times(cell: MeasuredLoad) -> Point | None:
    times = cell.histogram("sent_response")
    return _box(cell, [value / 1e6 for value in times.quantiles_ns((0.25, 0.5, 0.75))] if times.count else [])


def _box(cell: MeasuredLoad, quartiles: Sequence[float]) -> Point | None:
    if not quartiles:
        return None
    first, middle, third = quartiles
    return Point(cell.devices, middle, middle - first, third - middle)


def _failed(cell: MeasuredLoad) -> Point:
    shares = [one.figure("failed_share") or 0.0 for one in cell.every]
    return Point(cell.devices, sum(shares) / len(shares))


def _mean(cell: MeasuredLoad) -> Point | None:
    means = cell.by_round("sent_response.avg")
    weights = {one.round: one.succeeded for one in cell.every if one.round in means}
    requests = sum(weights.values())
    total_us = sum(mean * weights[name] for name, mean in means.items())
    return Point(cell.devices, total_us / requests / 1000) if requests else None
