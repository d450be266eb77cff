"""Draw the source's figures beside the measured ones; the wire's floor or limit is a line in each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.cell import AsipCell
from looplab.experiments.asip.report.findings import usable
from looplab.experiments.asip.report.published import LATENCY_MS, PLACEMENTS, THROUGHPUT_HZ, TRANSPORTS
from looplab.experiments.asip.report.scope import Scope, scopes
from looplab.report.drawing import Drawing, drawn, shares
from looplab.report.finding import exact
from looplab.report.samples import Measured
from looplab.report.statistics import Interval

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


@dataclass(frozen=True)
class Rows:
    """Figures 3.20 to 3.25: a row a configuration, hollow marks are published, full ones measured."""

    figure: str
    fidelity: str
    language: str
    rows: Sequence[Row]
    measured: Sequence[Row]
    wire: float
    unit: str

    def draw(self) -> Drawing:
        what = "highest frequency tracked" if self.unit == "Hz" else "mean latency"
        line = "the wire's limit" if self.unit == "Hz" else "the time on the wire"
        caption = (
            f"Figure {self.figure}: {what} from {self.language.capitalize()}. Hollow marks are published, full ones "
        )
        caption += f"measured; the line is {line}."
        told = [f"{name}: {_said(held, self.unit)}" for name, held in (*self.rows, *self.measured)]
        name = f"asip_figure_{self.figure.replace('.', '_')}_{self.fidelity}"
        alternative = f"{caption} {'; '.join(told)}; wire: {self.wire:.3g} {self.unit}."
        return drawn(name, self.figure, self.fidelity, caption, alternative, self._put, place=_PLACE)

    def _put(self, axes: Axes) -> None:
        names = [name for name, _held in (*self.rows, *self.measured)]
        for at, (_name, held) in enumerate(self.rows):
            for transport, printed in held.items():
                colour, mark = LOOKS[transport]
                axes.plot(printed.estimate, _height(at, transport), mark, mfc="none", mec=colour, ms=5)
        for at, (_name, intervals) in enumerate(self.measured, len(self.rows)):
            for transport, value in intervals.items():
                self._mark(axes, at, transport, value)
        for transport, (colour, mark) in LOOKS.items():
            axes.plot([], [], mark, color=colour, ms=5, label=NAMES[transport])
        if not math.isnan(self.wire):
            axes.axvline(self.wire, color=_GREY, linewidth=1.0, linestyle="--", label="wire")
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(0, None)
        axes.set_xlabel("Hz of the square wave" if self.unit == "Hz" else "ms")

    def _mark(self, axes: Axes, at: int, transport: str, value: Interval) -> None:
        colour, mark = LOOKS[transport]
        y = _height(at, transport)
        if value.known:
            axes.plot([value.low, value.high], [y, y], color=colour, linewidth=1.4)
        axes.plot(value.estimate, y, mark, color=colour, ms=5.5)


def _height(at: int, transport: str) -> float:
    """Return the height of a mark: the three of a row stand below each other."""
    return at + 0.22 * (TRANSPORTS.index(transport) - 1)


def _said(held: Mapping[str, Interval], unit: str) -> str:
    return ", ".join(f"{NAMES[transport]} {value.estimate:.4g} {unit}" for transport, value in held.items()) or "none"


@dataclass(frozen=True)
class Latencies:
    """The distribution of each cell's latency, and the time on the wire as a line."""

    fidelity: str
    curves: Sequence[tuple[str, str, np.ndarray]]
    wire_ms: float

    def draw(self) -> Drawing:
        caption = "Latency on the client's clock, all parts on one machine. No curve can be left of the wire."
        told = "; ".join(f"{NAMES[t]} {la}: median {np.median(v):.3f} ms" for la, t, v in self.curves)
        alternative = f"{caption} {told}; wire {self.wire_ms:.3f} ms."
        name = f"asip_latencies_{self.fidelity}"
        return drawn(name, "latencies", self.fidelity, caption, alternative, self._put, place=_UNDER)

    def _put(self, axes: Axes) -> None:
        for language, transport, values in self.curves:
            share = np.arange(1, values.size + 1) / values.size
            colour, line = LOOKS[transport][0], DASHES.get(language, ":")
            axes.step(values, share, line, where="post", color=colour, linewidth=1.4)
        _legend(axes, self.curves, self.wire_ms)
        shares(axes, "latency", "share of tests answered", logarithmic=True)


@dataclass(frozen=True)
class Tracked:
    """The share of edges that came out, by frequency; the wire's limit is a line."""

    fidelity: str
    curves: Sequence[tuple[str, str, Sequence[tuple[float, float]]]]
    wire_hz: float

    def draw(self) -> Drawing:
        caption = "Edges of pin 13 over edges of pin 2, by the frequency of the wave; 100 % is tracked."
        told = "; ".join(
            f"{NAMES[t]} {la}: " + ", ".join(f"{share:.0%} at {hz:.4g} Hz" for hz, share in curve)
            for la, t, curve in self.curves
        )
        name = f"asip_tracked_{self.fidelity}"
        return drawn(name, "tracked", self.fidelity, caption, f"{caption} {told}.", self._put, place=_UNDER)

    def _put(self, axes: Axes) -> None:
        from matplotlib.ticker import PercentFormatter

        for language, transport, curve in self.curves:
            colour, mark = LOOKS[transport]
            line = DASHES.get(language, ":")
            axes.plot(*zip(*curve, strict=True), f"{line}", marker=mark, color=colour, ms=4, linewidth=1.2)
        _legend(axes, self.curves, self.wire_hz)
        axes.set_ylim(0, 1.05)
        axes.set_xlim(0, None)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("Hz of the square wave")
        axes.set_ylabel("edges out over edges in")


def _legend(axes: Axes, curves: Sequence[tuple[str, str, object]], wire: float) -> None:
    """Name the colours of the transports and the dashes of the languages; draw the wire."""
    for transport in dict.fromkeys(transport for _language, transport, _curve in curves):
        axes.plot([], [], color=LOOKS[transport][0], label=NAMES[transport])
    for language in dict.fromkeys(language for language, _transport, _curve in curves):
        axes.plot([], [], DASHES.get(language, ":"), color=_GREY, label=language.capitalize())
    axes.axvline(wire, color=_GREY, linewidth=1.0, linestyle="-.", label="wire")


def sketches(run: Measured) -> list[Rows | Latencies | Tracked | Scope]:
    """Return the figures of one run; those for which it has no cells are left out."""
    held = usable(run)
    if not held:
        return []
    fidelity, newest = run.run.fidelity, run.runs[-1].run.path
    if run.run.scenario == NAME:
        made: list[Rows | Latencies | Tracked | Scope] = [*_rows(run, LATENCY_MS, ("3.24", "3.25")), *_latencies(run)]
    else:
        made = [*_rows(run, THROUGHPUT_HZ, ("3.20", "3.21")), *_tracked(run)] if run.run.scenario == THROUGHPUT else []
    return [*made, *scopes(newest, fidelity, held)]


def value_of(cell: AsipCell, measure: str) -> Interval | None:
    """Return what figures 3.20 to 3.25 show of a cell: Hz tracked, or the mean latency in ms."""
    if measure == THROUGHPUT_HZ:
        return None if math.isnan(cell.tracked_hz.estimate) else cell.tracked_hz
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


def _rows(run: Measured, measure: str, numbers: Sequence[str]) -> list[Rows]:
    unit = "Hz" if measure == THROUGHPUT_HZ else "ms"
    wire = [c.wire_hz if measure == THROUGHPUT_HZ else c.wire_us / 1000 for c in usable(run)]
    found = []
    for number, language in zip(numbers, published.LANGUAGES, strict=True):
        measured = measured_rows(run, measure, language)
        if measured:
            rows = published_rows(measure, language)
            found.append(Rows(number, run.run.fidelity, language, rows, measured, float(np.nanmedian(wire)), unit))
    return found


def _latencies(run: Measured) -> list[Latencies]:
    held = [c for c in usable(run) if c.placement == "one" and c.latency_us["latency"].size]
    curves = [(c.language, c.transport, np.sort(c.latency_us["latency"]) / 1000) for c in held]
    wire_ms = float(np.median([c.wire_us for c in held])) / 1000 if held else math.nan
    return [Latencies(run.run.fidelity, curves, wire_ms)] if curves and not math.isnan(wire_ms) else []


def _tracked(run: Measured) -> list[Tracked]:
    curves = []
    for cell in usable(run):
        steps = sorted((s["frequency_hz"], s["edges_out"] / s["edges_in"]) for s in cell.steps if s["edges_in"])
        if steps and cell.placement == "one":
            curves.append((cell.language, cell.transport, steps))
    wire_hz = float(np.median([c.wire_hz for c in usable(run)]))
    return [Tracked(run.run.fidelity, curves, wire_hz)] if curves else []
