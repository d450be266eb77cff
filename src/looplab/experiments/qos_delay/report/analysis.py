"""From measured runs of qos-delay to everything that the report shows: findings, figures, CSV files, page."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from looplab.experiments.qos_delay.report.claims import add_causes, claims, delay_cells
from looplab.experiments.qos_delay.report.figures import TITLES, sketches
from looplab.report.analysis import Analysis
from looplab.report.csv_rows import cell_row, spread
from looplab.report.drawing import Sketch, under
from looplab.report.finding import Finding, finding_rows
from looplab.report.overview import overview
from looplab.report.page import show_figure, show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each fidelity."""
    runs = {fidelity: next(iter(held.values())) for fidelity, held in by_fidelity(measured).items()}
    verdicts = judge(claims(), by_fidelity(measured))
    add_causes(runs, verdicts)

    context = {
        "sections": {"claims": "Findings", "cells": "Cells"}.items(),
        "show": show,
    }

    csv_files = {
        "qos-delay-cells.csv": _cell_rows(runs),
        "qos-delay-findings.csv": finding_rows(verdicts),
    }
    axis = "measured over published (mean of the cells)"
    drawable: list[Sketch] = [*overview(verdicts, axis, _compared, "as published")]
    for run in runs.values():
        drawable += sketches(run)
    return Analysis(verdicts, drawable, csv_files, context, partial(under, TITLES))


def _compared(_claim: Claim, found: Verdict) -> tuple[Interval | None, float | None]:
    """Return how far the figures are from the published ones, as a share; None where none was published."""
    assert isinstance(found, Finding)
    over = [line.value.over(float(line.published.split()[-1])) for line in found.lines if line.published]
    if not over:
        return None, None
    mean = Interval(*(float(np.mean([getattr(one, end) for one in over])) for end in ("estimate", "low", "high")))
    return mean.change, 0.0


def show(value: float, unit: str) -> str:
    """Return a figure for a table, a dash for NaN; `unit`: us, bytes, packets or × (a ratio)."""
    return show_figure(value, show_ms if unit == "us" else ("{:.0f}" if unit == "bytes" else "{:.2f}").format)


def _cell_rows(runs: Mapping[str, Measured]) -> Iterator[dict[str, object]]:
    for held in runs.values():
        for cell in delay_cells(held):
            yield {**cell_row(held, cell), **spread("ratio", cell.interval("ratio"), ".4f")}
