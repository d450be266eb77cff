"""Draw the paper's figures from stored runs: processed requests, times, differences and errors over the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from looplab.experiments.middleware import NAME, NODES, Placement
from looplab.experiments.middleware.report import CLIENT, PROCESSED, SERVER, MeasuredLoad
from looplab.experiments.middleware.report.claims import MOST_ERRORS, difference
from looplab.experiments.middleware.report.placements import (
    RESAMPLES,
    container_pairs,
    load_cells,
    optima,
    places,
    published,
)
from looplab.report.analysis import Files
from looplab.report.csv_rows import cell_row
from looplab.report.drawing import LinePlot, Plot, PlotPoint, point
from looplab.report.samples import MeasuredRuns
from looplab.system.histogram import merged

TITLES = {
    "Figures 2 and 3: processed requests, bare metal and container": ("2", "3"),
    "Figures 4 and 5: time of a request at the client, bare metal and container": ("4", "5"),
    "Figures 6, 7 and 8: bare metal against container": ("6", "7", "8"),
    "Figures 10 and 12: processed requests and errors, several nodes": ("10", "12"),
    "Figure 14: time of a request at the client, several nodes": ("14",),
}
# Room for percentages on the left and two lines of names above.
_PLACE, _COLUMNS = (0.19, 0.145, 0.785, 0.70), 2
_QUARTILES = "Points are medians, bars the quartiles"
_COUNTED = f"{_QUARTILES} of the repetitions. Dotted lines: the optimal loads."
_TIMED = f"{_QUARTILES} of the merged times of all requests that succeeded."
_TRIMMED = " As published, the best and the worst repetition are left out."
_PROCESSED = "requests processed in a second"


def sketches(runs: Mapping[str, MeasuredRuns]) -> list[Plot]:
    """Return the figures of the runs of one fidelity, by scenario; those without cells are left out."""
    made = [one(runs[name]) for name, one in ((NAME, _cores), (NODES, _nodes)) if name in runs]
    return [plot for plots in made for plot in plots]


def context(measured: Sequence[MeasuredRuns]) -> dict[str, Any]:
    """Return what the page shows beside findings and cells: optimal loads, the paper's Tables 1 and 2."""
    return {
        "sections": (("claims", "Findings"), ("optima", "Optimal loads"), ("cells", "Cells")),
        "optima": [(m, optima(m)) for m in measured],
        "table_1": [list(_table_1(m)) for m in measured if any(cell.balancer for cell in load_cells(m)) and places(m)],
        "published_table": list(_published_table()),
        "resamples": RESAMPLES,
    }


def files(measured: Sequence[MeasuredRuns]) -> Files:
    """Return the CSV file of all repetitions."""
    return {"middleware-repetitions.csv": _repetition_rows(measured)}


def _table_1(run: MeasuredRuns) -> Iterator[dict[str, Any]]:
    """Yield the rows of the paper's Tables 1 and 2: what each placement processes at the optimal load of the best."""
    load = max(optima(run), key=lambda best: best.processed).load
    cells = {place: cell for place, loads in places(run).items() for cell in loads if cell.devices == load}
    processed = {place: cell.interval(PROCESSED) for place, cell in cells.items()}
    most = max((value.estimate for value in processed.values()), default=math.nan)
    for place in sorted({cell.place for cell in load_cells(run)}):
        yield {
            "place": place,
            "load": load,
            "cell": cells.get(place),
            "processed": processed.get(place),
            "out_of_memory": any(cell.starved for cell in load_cells(run) if cell.place == place),
            "against_best": processed[place].estimate / most - 1 if place in processed else None,
        }


def _published_table() -> Iterator[dict[str, Any]]:
    """Yield the rows of Tables 1 and 2 as printed."""
    printed, shares = published("processed"), published("memory share")
    for place, count in printed.items():
        against_best = count / max(printed.values()) - 1
        yield {"place": place, "processed": count, "against_best": against_best, "memory": shares[place]}


def _repetition_rows(measured: Sequence[MeasuredRuns]) -> Iterator[dict[str, object]]:
    for run in measured:
        for cell in load_cells(run):
            for one in cell.every:
                name, number_of = one.unit
                yield {**cell_row(run, one), "run": name, "repetition": number_of, "seconds": one.document["seconds"]}


def _cores(run: MeasuredRuns) -> Iterator[Plot]:
    for container, counted, timed in ((False, "2", "4"), (True, "3", "5")):
        where = "Container" if container else "Bare metal"
        draw = partial(_plots, run, partial(_cores_text, container))
        yield from draw(counted, f"{where}. {_COUNTED}", _quartiles, _PROCESSED, best=True)
        yield from draw(timed, f"{where}. {_TIMED}", _times, "ms from sent to answered")
    for figure, value, what in (
        ("6", PROCESSED, "requests processed"),
        ("7", SERVER, "time in the middleware"),
        ("8", CLIENT, "time at the client"),
    ):
        series: dict[str, list[PlotPoint]] = {}
        for pair in container_pairs(run):
            share = difference(pair, value)
            if not math.isnan(share.estimate):
                series.setdefault(pair[0].place.size, []).append(point(pair[0].devices, share))
        caption = f"(bare metal - container) / bare metal of the {what}. Bars are 95 % intervals."
        lines = LinePlot(series, "devices", "difference", levels=(0.0,), percent=True)
        yield from lines.plot(run, figure, caption, place=_PLACE, legend_columns=_COLUMNS)


def _nodes(run: MeasuredRuns) -> Iterator[Plot]:
    draw = partial(_plots, run, _nodes_text)
    yield from draw("10", _COUNTED, _quartiles, _PROCESSED, best=True)
    caption = (
        f"Share of the requests, unfinished ones included, mean of the repetitions. The line is at {MOST_ERRORS:.0%}."
    )
    yield from draw("12", caption, _failed, "failed requests", levels=(MOST_ERRORS,), percent=True)
    yield from draw("14", _TIMED, _times, "median ms from sent to answered")


def _plots(
    run: MeasuredRuns,
    name: Callable[[Placement], str],
    figure: str,
    caption: str,
    mark: Callable[[MeasuredLoad, bool], PlotPoint | None],
    y_label: str,
    *,
    best: bool = False,
    **more: Any,
) -> list[Plot]:
    """Return a figure with a line for each placement that has a `name` in it; `mark` is what a cell is there."""
    trimmed = run.run.fidelity == "thesis"
    by_place = {place: [mark(cell, trimmed) for cell in cells] for place, cells in places(run).items() if name(place)}
    marks = {place: [one for one in each if one] for place, each in by_place.items()}
    series = {name(place): points for place, points in marks.items() if points}
    optimal = {name(one.place): one.devices.estimate for one in optima(run) if best and marks.get(one.place)}
    lines = LinePlot(series, "devices", y_label, best=optimal, **more)
    left_out = (
        trimmed and mark is not _failed and any(len(cell.every) > 2 for each in places(run).values() for cell in each)
    )
    return lines.plot(run, figure, caption + _TRIMMED * left_out, place=_PLACE, legend_columns=_COLUMNS)


def _cores_text(container: bool, place: Placement) -> str:
    return place.size if place.container == container else ""


def _nodes_text(place: Placement) -> str:
    return f"{place.nodes} x {place.cores}{'' if place.balancer else ', no balancer'}"


def _quartiles(cell: MeasuredLoad, trimmed: bool) -> PlotPoint | None:
    return _box(cell, cell.quartiles(trimmed))


def _times(cell: MeasuredLoad, trimmed: bool) -> PlotPoint | None:
    kept = cell.kept(CLIENT, trimmed)
    times = merged(one.histograms["sent_response"] for one in kept if "sent_response" in one.histograms)
    return _box(cell, [value / 1e6 for value in times.quantiles_ns((0.25, 0.5, 0.75))] if times.count else [])


def _box(cell: MeasuredLoad, quartiles: Sequence[float]) -> PlotPoint | None:
    if not quartiles:
        return None
    first, middle, third = quartiles
    return PlotPoint(cell.devices, middle, middle - first, third - middle)


def _failed(cell: MeasuredLoad, _trimmed: bool) -> PlotPoint:
    return PlotPoint(cell.devices, fmean(one.failed_share or 0.0 for one in cell.every))
