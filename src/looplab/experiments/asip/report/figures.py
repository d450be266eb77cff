"""Draw the source's figures beside the measured ones; the wire's floor or limit is a line in each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from looplab.experiments.asip.parameters import TRANSPORTS
from looplab.experiments.asip.report import THROUGHPUT_HZ, measure_of, published, usable
from looplab.experiments.asip.report.claims import LATENCY, TRACKED
from looplab.report.drawing import GREY, Plot
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The figures under one heading.
TITLES = {
    "Figures 3.20 and 3.21: throughput": ("3.20", "3.21"),
    "Figures 3.24 and 3.25: latency": ("3.24", "3.25"),
}
# What runs elsewhere, in words.
HERE, PLACES = "here: ", {"one": "one machine", "bridge": "bridge elsewhere"}
STYLES = {"serial": ("#0072b2", "o"), "tcp": ("#d55e00", "s"), "mqtt": ("#009e73", "^")}
# The source prints Java first.
PRINTED_ORDER = ("java", "python")
NAMES = {"serial": "serial", "tcp": "TCP", "mqtt": "MQTT"}
# Room for the names of rows on the left.
_PLACE = (0.385, 0.145, 0.59, 0.75)

# The value of each transport, with its interval where there is one, by the row's name.
Rows = Mapping[str, Mapping[str, Interval]]


def rows(run: MeasuredRuns, language: str) -> Rows:
    """Return what is published for a language by configuration, then what was measured: names that begin with HERE."""
    measure = measure_of(run)
    table: dict[str, dict[str, Interval]] = {}
    for one in published().itertuples():
        if (one.measure, one.language) == (measure, language):
            table.setdefault(one.configuration, {})[one.transport] = Interval(one.value)
    for cell in sorted(usable(run), key=lambda cell: list(PLACES).index(cell.placement)):
        value = cell.interval(TRACKED) if measure == THROUGHPUT_HZ else cell.interval(LATENCY).over(1000)
        if cell.language == language and not math.isnan(value.estimate):
            table.setdefault(HERE + PLACES[cell.placement], {})[cell.transport] = value
    return table


def context(measured: Sequence[MeasuredRuns]) -> dict[str, Any]:
    """Return what the page shows beside findings and cells: published and measured in one table a run."""
    return {
        "sections": (("claims", "Claims"), ("published", "Published and measured"), ("cells", "Cells")),
        "beside": [_published_and_measured(m) for m in measured if not m.run.factors],
        "columns": [(language, NAMES[t]) for language in PRINTED_ORDER for t in TRANSPORTS],
    }


def _published_and_measured(run: MeasuredRuns) -> tuple[str, str, list[tuple[str, list[Interval | None]]]]:
    """Return a table of published rows, then measured ones: heading, unit, rows of a value for each column."""
    each = [rows(run, language) for language in PRINTED_ORDER]
    names = sorted({name: 0 for one in each for name in one}, key=lambda name: name.startswith(HERE))
    table = [(name, [one.get(name, {}).get(t) for one in each for t in TRANSPORTS]) for name in names]
    hz = measure_of(run) == THROUGHPUT_HZ
    heading, unit = ("Throughput: highest frequency tracked", "Hz") if hz else ("Latency: mean", "ms")
    return f"{heading} in {unit}, {run.run.fidelity}", unit, table


def sketches(runs: Runs) -> list[Plot]:
    """Return the figures of the runs of one fidelity; those for which they have no cells are left out."""
    return [sketch for run in runs.values() for sketch in _rows(run)]


def _rows(run: MeasuredRuns) -> Iterator[Plot]:
    """Yield figures 3.20 to 3.25: a row a configuration, hollow marks are published, full ones measured."""
    numbers, unit, what, line, wire_figure, scale = (
        (("3.20", "3.21"), "Hz", "highest frequency tracked", "the wire's limit", "wire_hz", 1)
        if measure_of(run) == THROUGHPUT_HZ
        else (("3.24", "3.25"), "ms", "mean latency", "the time on the wire", "wire_us", 1000)
    )
    wires = [one / scale for cell in usable(run) if (one := cell.figure(wire_figure)) is not None]
    wire = median(wires) if wires else math.nan
    for number, language in zip(numbers, PRINTED_ORDER, strict=True):
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
    if not math.isnan(wire):
        axes.axvline(wire, color=GREY, linewidth=1.0, linestyle="-.", label="wire")
    axes.set_yticks(range(len(table)), [*table], fontsize=8)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_xlim(0, None)
    axes.set_xlabel("Hz of the square wave" if unit == "Hz" else "ms")
