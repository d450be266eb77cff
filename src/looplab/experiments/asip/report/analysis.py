"""From measured runs of asip to everything that the report shows: findings, figures, CSV files, page."""

from collections.abc import Iterator, Sequence
from functools import partial

from looplab.experiments.asip import NAME, THROUGHPUT
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.cell import MeasuredAsip
from looplab.experiments.asip.report.claims import add_causes, cells, claims, usable
from looplab.experiments.asip.report.figures import NAMES, TITLES, measured_rows, published_rows, sketches
from looplab.experiments.asip.report.published import LATENCY_MS, THROUGHPUT_HZ
from looplab.report.analysis import Analysis
from looplab.report.csv_rows import cell_row, number
from looplab.report.drawing import Sketch, under
from looplab.report.finding import Finding, finding_rows
from looplab.report.overview import overview
from looplab.report.page import show_figure, show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge

MEASURES = {THROUGHPUT: THROUGHPUT_HZ, NAME: LATENCY_MS}


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: of each scenario, one of each fidelity."""
    usual = [m for m in measured if not m.run.factors]
    runs = by_fidelity(usual)
    verdicts = judge(claims(), runs)
    add_causes(runs, verdicts)

    context = {
        "sections": {
            "claims": "Claims",
            "published": "Published and measured",
            "factors": "Factors",
            "cells": "Cells",
        }.items(),
        "show": show,
        "beside": [table for m in usual for table in _beside(m)],
        "factored": factored(measured),
        "columns": [(language, NAMES[t]) for language in published.LANGUAGES for t in published.TRANSPORTS],
        "latency_runs": [m for m in measured if m.run.scenario == NAME],
        "throughput_runs": [m for m in measured if m.run.scenario == THROUGHPUT],
    }

    csv_files = {
        "asip-cells.csv": [row for m in measured for row in _cell_rows(m)],
        "asip-findings.csv": finding_rows(verdicts),
    }
    axis = "second side over first (Java over Python, and so on)"
    drawable: list[Sketch] = [*overview(verdicts, axis, _compared)]
    for run in usual:
        drawable += sketches(run)
    return Analysis(verdicts, drawable, csv_files, context, partial(under, TITLES))


def _compared(_claim: Claim, found: Verdict) -> tuple[Interval | None, float | None]:
    assert isinstance(found, Finding)
    for first in found.lines[:1]:
        if first.published and first.unit == "×" and " " not in first.published:
            return first.value.change, float(first.published) - 1
    return None, None


def _beside(run: Measured) -> Iterator[tuple[str, str, list[tuple[str, list[Interval | None]]]]]:
    """Yield a table of published rows, then measured ones: heading, unit, rows of a value for each column."""
    measure = MEASURES.get(run.run.scenario)
    if measure is None:
        return
    rows: dict[str, list[Interval | None]] = {}
    for place, language in enumerate(published.LANGUAGES):
        for name, held in (*published_rows(measure, language), *measured_rows(run, measure, language)):
            for transport, value in held.items():
                rows.setdefault(name, [None] * 6)[3 * place + published.TRANSPORTS.index(transport)] = value
    unit = "Hz" if measure == THROUGHPUT_HZ else "ms"
    order = sorted(rows.items(), key=lambda item: item[0].startswith("here"))
    heading = "Throughput: highest frequency tracked" if unit == "Hz" else "Latency: mean"
    yield f"{heading} in {unit}, {run.run.fidelity}", unit, order


def factored(measured: Sequence[Measured]) -> list[tuple[str, str, MeasuredAsip]]:
    """Return (fidelity, factors, cell) of each cell that was measured with a factor set, and of its like as usual."""
    keys = {(m.run.scenario, m.run.fidelity, key) for m in measured if m.run.factors for key in m.cells}
    held = [
        (m.run.fidelity, " ".join(m.run.factors) or "as usual", cell)
        for m in measured
        for cell in usable(m)
        if (m.run.scenario, m.run.fidelity, cell.key) in keys
    ]
    return sorted(held, key=lambda row: ("tracked_hz" in row[2].document, row[0], row[2].text, row[1] != "as usual"))


def show(value: float | None, unit: str) -> str:
    """Return a figure for a table, a dash for none and NaN; `unit`: us (shown as ms), Hz, ms or × (a ratio)."""
    return show_figure(value, show_ms if unit == "us" else ("{:.0f}" if unit == "Hz" else "{:.2f}").format)


def _cell_rows(run: Measured) -> Iterator[dict[str, object]]:
    for cell in cells(run):
        yield {**cell_row(run, cell), "factors": " ".join(run.run.factors), "edge_p95_us": number(cell.edge("p95"))}
