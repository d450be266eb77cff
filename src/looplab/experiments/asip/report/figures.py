"""Draw the source's figures beside the measured ones; the wire's floor or limit is a line in each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.report import MeasuredAsip, MeasuredThroughput, published, usable
from looplab.experiments.asip.report.claims import LATENCY, TRACKED
from looplab.experiments.asip.report.published import LATENCY_MS, THROUGHPUT_HZ, TRANSPORTS
from looplab.report.drawing import GREY, LinePlot, Plot, PlotPoint, Sketch, shares
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Floats, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The figures under one heading.
TITLES = {
    "Figures 3.20 and 3.21: throughput": ("3.20", "3.21"),
    "Figures 3.24 and 3.25: latency": ("3.24", "3.25"),
    "Against the wire": ("latencies", "tracked"),
}
# What runs elsewhere, in words.
HERE, PLACES = "here: ", {"one": "one machine", "bridge": "bridge elsewhere"}
STYLES = {"serial": ("#0072b2", "o"), "tcp": ("#d55e00", "s"), "mqtt": ("#009e73", "^")}
NAMES = {"serial": "serial", "tcp": "TCP", "mqtt": "MQTT"}
DASHES = {"python": "-", "java": "--"}
# Room for two lines of legend above, and for the names of rows on the left.
_UNDER, _PLACE = (0.14, 0.145, 0.835, 0.7), (0.385, 0.145, 0.59, 0.75)

# The value of each transport, with its interval where there is one, by the row's name.
Rows = Mapping[str, Mapping[str, Interval]]
# The latencies of a client over a transport, sorted.
Curve = tuple[MeasuredAsip, Floats]


def rows(run: MeasuredRuns, language: str) -> Rows:
    """Return what is published for a language by configuration, then what was measured: names that begin with HERE."""
    tracked = run.run.scenario == THROUGHPUT
    table: dict[str, dict[str, Interval]] = {}
    for one in published.figures().itertuples():
        if (one.measure, one.language) == (THROUGHPUT_HZ if tracked else LATENCY_MS, language):
            table.setdefault(one.configuration, {})[one.transport] = Interval(one.value)
    for cell in sorted(usable(run), key=lambda cell: list(PLACES).index(cell.placement)):
        value = cell.interval(TRACKED) if tracked else cell.interval(LATENCY).over(1000)
        if cell.language == language and not math.isnan(value.estimate):
            table.setdefault(HERE + PLACES[cell.placement], {})[cell.transport] = value
    return table


def sketches(runs: Runs) -> list[Sketch]:
    """Return the figures of the runs of one fidelity; those for which they have no cells are left out."""
    return [sketch for run in runs.values() for sketch in _sketches(run)]


def context(measured: Sequence[MeasuredRuns]) -> dict[str, Any]:
    """Return what the page shows beside findings and cells: published and measured in one table a run."""
    return {
        "sections": (("claims", "Claims"), ("published", "Published and measured"), ("cells", "Cells")),
        "beside": [_published_and_measured(m) for m in measured if not m.run.factors],
        "columns": [(language, NAMES[t]) for language in published.LANGUAGES for t in TRANSPORTS],
    }


def _published_and_measured(run: MeasuredRuns) -> tuple[str, str, list[tuple[str, list[Interval | None]]]]:
    """Return a table of published rows, then measured ones: heading, unit, rows of a value for each column."""
    each = [rows(run, language) for language in published.LANGUAGES]
    names = sorted({name: 0 for one in each for name in one}, key=lambda name: name.startswith(HERE))
    table = [(name, [one.get(name, {}).get(t) for one in each for t in TRANSPORTS]) for name in names]
    hz = run.run.scenario == THROUGHPUT
    heading, unit = ("Throughput: highest frequency tracked", "Hz") if hz else ("Latency: mean", "ms")
    return f"{heading} in {unit}, {run.run.fidelity}", unit, table


def _sketches(run: MeasuredRuns) -> list[Sketch]:
    cells, tracked = usable(run), run.run.scenario == THROUGHPUT
    if not cells:
        return []
    wires = [one for cell in cells if (one := cell.figure("wire_hz" if tracked else "wire_us")) is not None]
    wire = float(np.median(wires)) / (1 if tracked else 1000) if wires else math.nan
    return [*_rows(run, wire), *(_shares_of_edges(run, wire) if tracked else _latencies(run, wire))]


def _rows(run: MeasuredRuns, wire: float) -> Iterator[Plot]:
    """Yield figures 3.20 to 3.25: a row a configuration, hollow marks are published, full ones measured."""
    numbers, unit, what, line = (
        (("3.20", "3.21"), "Hz", "highest frequency tracked", "the wire's limit")
        if run.run.scenario == THROUGHPUT
        else (("3.24", "3.25"), "ms", "mean latency", "the time on the wire")
    )
    for number, language in zip(numbers, published.LANGUAGES, strict=True):
        table = rows(run, language)
        if any(name.startswith(HERE) for name in table):
            caption = f"Figure {number}: {what} from {language.capitalize()}. Hollow marks are published, full ones "
            caption += f"measured; the line is {line}."
            text = "; ".join(f"{name}: {_row_text(values, unit)}" for name, values in table.items())
            put = partial(_put_rows, table, wire, unit)
            yield Plot.of(run, number, caption, f"{text}; wire: {wire:.3g} {unit}.", put, place=_PLACE)


def _row_text(values: Mapping[str, Interval], unit: str) -> str:
    return ", ".join(f"{NAMES[transport]} {value.estimate:.4g} {unit}" for transport, value in values.items())


def _put_rows(table: Rows, wire: float, unit: str, axes: Axes) -> None:
    for at, (name, values) in enumerate(table.items()):
        for transport, value in values.items():
            colour, mark = STYLES[transport]
            # The three of a row are below each other.
            y = at + 0.22 * (TRANSPORTS.index(transport) - 1)
            if value.known:
                axes.plot([value.low, value.high], [y, y], color=colour, linewidth=1.4)
            axes.plot(value.estimate, y, mark, mfc=colour if name.startswith(HERE) else "none", mec=colour, ms=5)
    for transport, (colour, mark) in STYLES.items():
        axes.plot([], [], mark, color=colour, ms=5, label=NAMES[transport])
    _put_wire(axes, wire)
    axes.set_yticks(range(len(table)), [*table], fontsize=8)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_xlim(0, None)
    axes.set_xlabel("Hz of the square wave" if unit == "Hz" else "ms")


def _latencies(run: MeasuredRuns, wire_ms: float) -> Iterator[Plot]:
    """Yield the distribution of each cell's latency, and the time on the wire as a line."""
    curves: list[Curve] = []
    for cell in usable(run):
        if cell.placement == "one" and (values := np.sort(cell.latency_us["latency"]) / 1000).size:
            curves.append((cell, values))
    if curves and not math.isnan(wire_ms):
        caption = "Latency on the client's clock, all parts on one machine. No curve can be left of the wire."
        each = "; ".join(f"{NAMES[c.transport]} {c.language}: median {np.median(v):.3f} ms" for c, v in curves)
        text = f"{each}; wire {wire_ms:.3f} ms."
        yield Plot.of(run, "latencies", caption, text, partial(_put_latencies, curves, wire_ms), place=_UNDER)


def _put_latencies(curves: Sequence[Curve], wire_ms: float, axes: Axes) -> None:
    for cell, values in curves:
        share = np.arange(1, values.size + 1) / cell.total().of(cell)
        axes.step(values, share, DASHES[cell.language], where="post", color=STYLES[cell.transport][0], linewidth=1.4)
    for transport in dict.fromkeys(cell.transport for cell, _ in curves):
        axes.plot([], [], color=STYLES[transport][0], label=NAMES[transport])
    for language in dict.fromkeys(cell.language for cell, _ in curves):
        axes.plot([], [], DASHES[language], color=GREY, label=language.capitalize())
    _put_wire(axes, wire_ms)
    shares(axes, "latency", "share of all tests answered", logarithmic=True)


def _shares_of_edges(run: MeasuredRuns, wire_hz: float) -> list[Plot]:
    """Return the share of edges that came out, by frequency; the wire's limit is a vertical line."""
    series: dict[str, list[PlotPoint]] = {}
    for cell in usable(run):
        tried = cell.steps if isinstance(cell, MeasuredThroughput) and cell.placement == "one" else ()
        steps = sorted(
            (step["frequency_hz"], step["edges_out"] / step["edges_in"]) for step in tried if step["edges_in"]
        )
        series |= {f"{NAMES[cell.transport]} {cell.language}": list(starmap(PlotPoint, steps))} if steps else {}
    if series and not math.isnan(wire_hz):
        series["wire"] = [PlotPoint(wire_hz, 0.0), PlotPoint(wire_hz, 1.0)]
    lines = LinePlot(series, "Hz of the square wave", "edges out over edges in", percent=True)
    return lines.plot(run, "tracked", "Edges of pin 13 over edges of pin 2; 100 % is tracked.", place=_UNDER)


def _put_wire(axes: Axes, wire: float) -> None:
    if not math.isnan(wire):
        axes.axvline(wire, color=GREY, linewidth=1.0, linestyle="-.", label="wire")
