"""Draw the paper's figures from stored runs: processed requests, times, differences and errors over the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from looplab.experiments.middleware import place_text
from looplab.experiments.middleware.report.cell import MeasuredLoad, Place
from looplab.experiments.middleware.report.claims import CORES, NODES
from looplab.experiments.middleware.report.comparisons import (
    Figure,
    client_us,
    container_pairs,
    difference,
    processed,
    server_us,
)
from looplab.experiments.middleware.report.optimum import by_place, optima, usable
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
_DEVICES = "devices"
_QUARTILES = "Points are medians, bars the quartiles"
_DOTTED = "Dotted lines: the optimal loads."
_PROCESSED = "requests processed in a second"
_FAILED = "Share of the ended requests, mean of the repetitions. The line is at 2 %."
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
        name, told = f"middleware_figure_{self.figure}_{self.fidelity}", self._alternative()
        return Plot(name, self.figure, self.fidelity, self.caption, told, self._put, _PLACE, legend_columns=2).draw()

    def _alternative(self) -> str:
        form = ".1%" if self.share else ".4g"
        told = [f"{name}: " + ", ".join(f"{p.y:{form}} at {p.x:g}" for p in held) for name, held in self.series.items()]
        best = "".join(f" Optimal load, {name}: {load:g} devices." for name, load in self.best.items())
        return f"{self.y_label} over the number of devices. {'; '.join(told)}.{best}"

    def _put(self, axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        if self.level is not None:
            axes.axhline(self.level, color=_GREY, linewidth=0.9)
        for at, (name, held) in enumerate(self.series.items()):
            style = STYLES[at % len(STYLES)]
            if name in self.best:
                axes.axvline(self.best[name], color=style[0], linestyle=":", linewidth=1.1)
            errorbars(axes, name, held, style, markersize=4.5, linewidth=1.5)
        axes.set_xlabel(_DEVICES)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_ylabel(self.y_label)
        if self.share:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            axes.set_ylim(0, None)


def sketches(runs: Mapping[str, Measured]) -> list[Sketch]:
    """Return the figures of the runs of one fidelity, by scenario; those without cells are left out."""
    found = [*_cores(runs.get(CORES)), *_nodes(runs.get(NODES))]
    return [sketch for sketch in found if sketch.series]


def _cores(run: Measured | None) -> Iterator[Sketch]:
    if run is None:
        return
    fidelity = run.run.fidelity
    best = {place: one.devices.estimate for place, one in optima(run).items()}
    for container, counted, timed in ((False, "2", "4"), (True, "3", "5")):
        places = {place: held for place, held in by_place(usable(run)).items() if place[0] == container}
        loads = {_cores_text(place): load for place, load in best.items() if place[0] == container}
        where = "Container" if container else "Bare metal"
        caption = f"{where}. {_QUARTILES} of the repetitions. {_DOTTED}"
        yield Sketch(counted, fidelity, _points(places, _cores_text, _quartiles), _PROCESSED, caption, best=loads)
        caption = f"{where}. {_QUARTILES} of all requests that succeeded."
        yield Sketch(timed, fidelity, _points(places, _cores_text, _times), "ms from sent to answered", caption)
    for figure, value, what in (
        ("6", processed, "requests processed"),
        ("7", server_us, "time in the middleware"),
        ("8", client_us, "time at the client"),
    ):
        yield _differences(run, figure, value, what)


def _nodes(run: Measured | None) -> Iterator[Sketch]:
    if run is None:
        return
    best = {_nodes_text(place): one.devices.estimate for place, one in optima(run).items()}
    limit = {"level": 0.02, "share": True}
    figures: tuple[tuple[str, Mark, str, str, dict[str, Any]], ...] = (
        ("10", _quartiles, _PROCESSED, f"{_QUARTILES} of the repetitions. {_DOTTED}", {"best": best}),
        ("12", _failed, "failed requests", _FAILED, limit),
        ("13", _mean, "mean ms from sent to answered", "Mean over all requests that succeeded.", {}),
        ("14", _times, "median ms from sent to answered", f"{_QUARTILES} of all requests that succeeded.", {}),
    )
    places = by_place(usable(run))
    for figure, mark, y_label, caption, more in figures:
        yield Sketch(figure, run.run.fidelity, _points(places, _nodes_text, mark), y_label, caption, **more)


def _points(
    places: Mapping[Place, Sequence[MeasuredLoad]], name: Callable[[Place], str], mark: Mark
) -> dict[str, list[Point]]:
    """Return the points of each place that has some."""
    series = {name(place): [p for cell in held if (p := mark(cell))] for place, held in places.items()}
    return {name: points for name, points in series.items() if points}


def _cores_text(place: Place) -> str:
    return place_text(*place).partition(",")[0]


def _nodes_text(place: Place) -> str:
    _container, balancer, nodes, cores = place
    return f"{nodes} x {cores}{'' if balancer else ', no balancer'}"


def _quartiles(cell: MeasuredLoad) -> Point | None:
    found = cell.quartiles()
    return Point(cell.devices, found[1], found[1] - found[0], found[2] - found[1]) if found else None


def _times(cell: MeasuredLoad) -> Point | None:
    held = cell.histogram("sent_response")
    if not held.count:
        return None
    first, middle, third = (value_ns / 1e6 for value_ns in held.quantiles_ns((0.25, 0.5, 0.75)))
    return Point(cell.devices, middle, middle - first, third - middle)


def _failed(cell: MeasuredLoad) -> Point:
    shares = [one.failed_share for one in cell.every]
    return Point(cell.devices, sum(shares) / len(shares))


def _mean(cell: MeasuredLoad) -> Point | None:
    held = [(one.time_us("sent_response", "avg"), one.document["succeeded"]) for one in cell.every]
    known = [(mean, count) for mean, count in held if mean is not None]
    whole = sum(count for _mean_us, count in known)
    return Point(cell.devices, sum(mean * count for mean, count in known) / whole / 1000) if whole else None


def _differences(run: Measured, figure: str, value: Figure, what: str) -> Sketch:
    series: dict[str, list[Point]] = {}
    for pair in container_pairs(usable(run)):
        found = difference(pair, value)
        if not math.isnan(found.estimate):
            series.setdefault(_cores_text(pair[0].place), []).append(point(pair[0].devices, found))
    caption = f"(bare metal - container) / bare metal of the {what}. Bars are 95 % intervals."
    return Sketch(figure, run.run.fidelity, series, "difference", caption, level=0.0, share=True)
