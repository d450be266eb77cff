"""Draw the source's figures beside the measured ones; the wire's floor or limit is a line in each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.cell import MeasuredAsip
from looplab.experiments.asip.report.claims import usable
from looplab.experiments.asip.report.published import LATENCY_MS, PLACEMENTS, THROUGHPUT_HZ, TRANSPORTS
from looplab.experiments.asip.report.scope import scopes
from looplab.report.drawing import Plot, Sketch, shares
from looplab.report.finding import exact
from looplab.report.samples import Measured
from looplab.report.statistics import Floats, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The figures under one heading.
TITLES = {
    "Figures 3.20 and 3.21: throughput": ("3.20", "3.21"),
    "Figures 3.24 and 3.25: latency": ("3.24", "3.25"),
    "Against the wire": ("latencies", "tracked"),
    "The oscilloscope": ("scope",),
}
# What runs elsewhere, in words.
PLACES = {"one": "here: one machine", "bridge": "here: bridge elsewhere", "broker": "here: broker elsewhere"}
LOOKS = {"serial": ("#0072b2", "o"), "tcp": ("#d55e00", "s"), "mqtt": ("#009e73", "^")}
NAMES = {"serial": "serial", "tcp": "TCP", "mqtt": "MQTT"}
DASHES = {"python": "-", "java": "--"}
_GREY = "#555555"
# Two lines of legend above.
_UNDER = (0.14, 0.145, 0.835, 0.7)
# The names of the rows are on the left.
_PLACE = (0.385, 0.145, 0.59, 0.75)

# Of a row: the value of each transport, with its interval where there is one.
Row = tuple[str, Mapping[str, Interval]]


def _height(at: int, transport: str) -> float:
    """Return the height of a mark: the three of a row stand below each other."""
    return at + 0.22 * (TRANSPORTS.index(transport) - 1)


def _said(held: Mapping[str, Interval], unit: str) -> str:
    return ", ".join(f"{NAMES[transport]} {value.estimate:.4g} {unit}" for transport, value in held.items()) or "none"


def sketches(run: Measured) -> list[Sketch]:
    """Return the figures of one run; those for which it has no cells are left out."""
    held = usable(run)
    if not held:
        return []
    fidelity, newest = run.run.fidelity, run.runs[-1].run.path
    if run.run.scenario == NAME:
        made = [*_rows(run, LATENCY_MS, ("3.24", "3.25")), *_latencies(run)]
    else:
        made = [*_rows(run, THROUGHPUT_HZ, ("3.20", "3.21")), *_tracked(run)] if run.run.scenario == THROUGHPUT else []
    return [*made, *scopes(newest, fidelity, held)]


def value_of(cell: MeasuredAsip, measure: str) -> Interval | None:
    """Return what figures 3.20 to 3.25 show of a cell: Hz tracked, or the mean latency in ms."""
    if measure == THROUGHPUT_HZ:
        return None if math.isnan(cell.tracked.estimate) else cell.tracked
    mean = cell.mean("latency")
    return None if mean is None else mean.over(1000)


def measured_rows(run: Measured, measure: str, language: str) -> list[Row]:
    """Return the values of a language by placement and transport."""
    rows: list[Row] = []
    for placement in PLACEMENTS:
        of_place = [c for c in usable(run) if (c.language, c.placement) == (language, placement)]
        values = {c.transport: value for c in of_place if (value := value_of(c, measure)) is not None}
        if values:
            rows.append((PLACES[placement], values))
    return rows


def published_rows(measure: str, language: str) -> list[Row]:
    """Return the published values of a language by configuration and transport."""
    rows: dict[str, dict[str, Interval]] = {}
    for figure in published.figures():
        if (figure.measure, figure.language) == (measure, language):
            rows.setdefault(figure.configuration, {})[figure.transport] = exact(figure.value)
    return list(rows.items())


def _rows(run: Measured, measure: str, numbers: Sequence[str]) -> list[Plot]:
    """Return figures 3.20 to 3.25: a row a configuration, hollow marks are published, full ones measured."""
    unit, what, line = (
        ("Hz", "highest frequency tracked", "the wire's limit")
        if measure == THROUGHPUT_HZ
        else ("ms", "mean latency", "the time on the wire")
    )
    wire = float(np.nanmedian([c.wire_limit_hz if unit == "Hz" else c.wire_time_us / 1000 for c in usable(run)]))
    found = []
    for number, language in zip(numbers, published.LANGUAGES, strict=True):
        printed, measured = published_rows(measure, language), measured_rows(run, measure, language)
        if measured:
            caption = f"Figure {number}: {what} from {language.capitalize()}. Hollow marks are published, full ones "
            caption += f"measured; the line is {line}."
            told = [f"{name}: {_said(held, unit)}" for name, held in (*printed, *measured)]
            alternative = f"{caption} {'; '.join(told)}; wire: {wire:.3g} {unit}."
            name, fidelity = f"asip_figure_{number.replace('.', '_')}_{run.run.fidelity}", run.run.fidelity
            put = partial(_put_rows, printed, measured, wire, unit)
            found.append(Plot(name, number, fidelity, caption, alternative, put, place=_PLACE))
    return found


def _put_rows(printed: Sequence[Row], measured: Sequence[Row], wire: float, unit: str, axes: Axes) -> None:
    names = [name for name, _held in (*printed, *measured)]
    for at, (_name, held) in enumerate(printed):
        for transport, value in held.items():
            colour, mark = LOOKS[transport]
            axes.plot(value.estimate, _height(at, transport), mark, mfc="none", mec=colour, ms=5)
    for at, (_name, held) in enumerate(measured, len(printed)):
        for transport, value in held.items():
            _mark(axes, at, transport, value)
    for transport, (colour, mark) in LOOKS.items():
        axes.plot([], [], mark, color=colour, ms=5, label=NAMES[transport])
    if not math.isnan(wire):
        axes.axvline(wire, color=_GREY, linewidth=1.0, linestyle="--", label="wire")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, None)
    axes.set_xlabel("Hz of the square wave" if unit == "Hz" else "ms")


def _mark(axes: Axes, at: int, transport: str, value: Interval) -> None:
    colour, mark = LOOKS[transport]
    y = _height(at, transport)
    if value.known:
        axes.plot([value.low, value.high], [y, y], color=colour, linewidth=1.4)
    axes.plot(value.estimate, y, mark, color=colour, ms=5.5)


def _latencies(run: Measured) -> list[Plot]:
    """Return the distribution of each cell's latency, and the time on the wire as a line."""
    held = [c for c in usable(run) if c.placement == "one" and c.latency_us["latency"].size]
    curves = [(c.language, c.transport, np.sort(c.latency_us["latency"]) / 1000) for c in held]
    wire_ms = float(np.median([c.wire_time_us for c in held])) / 1000 if held else math.nan
    if math.isnan(wire_ms):
        return []
    caption = "Latency on the client's clock, all parts on one machine. No curve can be left of the wire."
    told = "; ".join(f"{NAMES[t]} {la}: median {np.median(v):.3f} ms" for la, t, v in curves)
    alternative = f"{caption} {told}; wire {wire_ms:.3f} ms."
    put = partial(_put_latencies, curves, wire_ms)
    return [_under("latencies", run, caption, alternative, put)]


def _put_latencies(curves: Sequence[tuple[str, str, Floats]], wire_ms: float, axes: Axes) -> None:
    for language, transport, values in curves:
        share = np.arange(1, values.size + 1) / values.size
        colour, line = LOOKS[transport][0], DASHES.get(language, ":")
        axes.step(values, share, line, where="post", color=colour, linewidth=1.4)
    _legend(axes, curves, wire_ms)
    shares(axes, "latency", "share of tests answered", logarithmic=True)


def _tracked(run: Measured) -> list[Plot]:
    """Return the share of edges that came out, by frequency; the wire's limit is a line."""
    curves = []
    for cell in usable(run):
        steps = sorted((s["frequency_hz"], s["edges_out"] / s["edges_in"]) for s in cell.steps if s["edges_in"])
        if steps and cell.placement == "one":
            curves.append((cell.language, cell.transport, steps))
    if not curves:
        return []
    wire_hz = float(np.median([c.wire_limit_hz for c in usable(run)]))
    caption = "Edges of pin 13 over edges of pin 2, by the frequency of the wave; 100 % is tracked."
    told = "; ".join(
        f"{NAMES[t]} {la}: " + ", ".join(f"{share:.0%} at {hz:.4g} Hz" for hz, share in curve)
        for la, t, curve in curves
    )
    return [_under("tracked", run, caption, f"{caption} {told}.", partial(_put_tracked, curves, wire_hz))]


def _put_tracked(curves: Sequence[tuple[str, str, Sequence[tuple[float, float]]]], wire_hz: float, axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    for language, transport, curve in curves:
        colour, mark = LOOKS[transport]
        line = DASHES.get(language, ":")
        axes.plot(*zip(*curve, strict=True), f"{line}", marker=mark, color=colour, ms=4, linewidth=1.2)
    _legend(axes, curves, wire_hz)
    axes.set_ylim(0, 1.05)
    axes.set_xlim(0, None)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("Hz of the square wave")
    axes.set_ylabel("edges out over edges in")


def _under(figure: str, run: Measured, caption: str, alternative: str, put: Callable[[Axes], None]) -> Plot:
    """Return a plot below a legend of two lines."""
    fidelity = run.run.fidelity
    return Plot(f"asip_{figure}_{fidelity}", figure, fidelity, caption, alternative, put, place=_UNDER)


def _legend(axes: Axes, curves: Sequence[tuple[str, str, object]], wire: float) -> None:
    """Name the colours of the transports and the dashes of the languages; draw the wire."""
    for transport in dict.fromkeys(transport for _language, transport, _curve in curves):
        axes.plot([], [], color=LOOKS[transport][0], label=NAMES[transport])
    for language in dict.fromkeys(language for language, _transport, _curve in curves):
        axes.plot([], [], DASHES.get(language, ":"), color=_GREY, label=language.capitalize())
    axes.axvline(wire, color=_GREY, linewidth=1.0, linestyle="-.", label="wire")
