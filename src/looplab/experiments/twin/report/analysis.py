"""From measured runs of twin to everything that the report shows: findings, figures, CSV files, page."""

from collections.abc import Iterator, Sequence
from functools import partial

from looplab.experiments.twin import LIMITS
from looplab.experiments.twin.report.claims import claims
from looplab.experiments.twin.report.figures import TITLES, sketches
from looplab.experiments.twin.report.groups import groups
from looplab.report.analysis import Analysis
from looplab.report.csv_rows import cell_row, number
from looplab.report.drawing import Sketch, under
from looplab.report.finding import Finding, finding_rows
from looplab.report.overview import overview
from looplab.report.page import show_figure
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: of each scenario and fidelity the newest and those like it."""
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)

    context = {
        "sections": {"claims": "Findings", "cells": "Cells"}.items(),
        "show": show,
        "limits": LIMITS,
    }

    csv_files = {
        "twin-cells.csv": _cell_rows(measured),
        "twin-brokers.csv": _broker_rows(measured),
        "twin-findings.csv": finding_rows(verdicts),
    }
    axis = "measured over published (first figure of each finding)"
    drawable: list[Sketch] = [*overview(verdicts, axis, _compared)]
    for held in runs.values():
        drawable += sketches(held)
    return Analysis(verdicts, drawable, csv_files, context, partial(under, TITLES))


def show(value: float, unit: str) -> str:
    """Return a figure for a table, a dash for NaN; `unit`: /s, s, s², ms, messages or × (a ratio)."""

    def form(held: float) -> str:
        return f"{held:,.0f}" if unit == "messages" or held >= 1000 else f"{held:.3g}" if held < 1 else f"{held:.2f}"

    return show_figure(value, form)


def _compared(_claim: Claim, found: Verdict) -> tuple[Interval | None, float | None]:
    """Return how far the finding's first figure is from the published one, as a share; None if none was published."""
    assert isinstance(found, Finding)
    for line in found.lines:
        printed = line.published.split()[-1:]
        if printed and printed[0].replace(".", "", 1).isdigit():
            return line.value.over(float(printed[0])).change, 0.0
    return None, None


def _cell_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for m in measured:
        for one in m.runs:
            yield from (cell_row(one, cell) for cell in one.cells.values())


def _broker_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for m in measured:
        for group in groups(m):
            for cell in group.cells:
                for one in cell.per_broker:
                    yield {
                        "scenario": m.run.scenario,
                        "fidelity": m.run.fidelity,
                        "brokers": group.brokers,
                        "placement": group.placement,
                        "write_mode": cell.write_mode,
                        "interval_ms": f"{cell.interval_ms:g}",
                        "repetition": cell.repetition,
                        "broker": one["broker"],
                        "stored": one["stored"],
                        "rate_out_per_s": number(one["rate_out_per_s"], ".4f"),
                        "operation_s": number(one["operation_s"], ".6f"),
                    }
