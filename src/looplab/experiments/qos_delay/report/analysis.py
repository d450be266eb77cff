"""From measured runs of qos-delay to everything that the report shows: findings, figures, CSV files, page."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.qos_delay.report.figures import TITLES, sketches
from looplab.experiments.qos_delay.report.findings import add_causes, claims, delay_cells
from looplab.report.cell import QUANTILES
from looplab.report.drawing import Drawing, Sketch
from looplab.report.finding import Finding, Line, finding_rows
from looplab.report.overview import Mark, Overview, overview
from looplab.report.page import show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.shell import Analysis, number, spread
from looplab.report.statistics import UNKNOWN, Interval
from looplab.report.verdicts import Verdicts, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each fidelity."""
    runs = {fidelity: next(iter(held.values())) for fidelity, held in by_fidelity(measured).items()}
    verdicts = judge(claims(), by_fidelity(measured))
    add_causes(runs, verdicts)

    def context(drawn: Sequence[Drawing]) -> Mapping[str, Any]:
        figures = [(title, "", [d for d in drawn if d.figure == number]) for number, title in TITLES.items()]
        return {
            "sections": {"claims": "Findings", "cells": "Cells"}.items(),
            "figures": [figure for figure in figures if figure[2]] or [("", "", [])],
            "show": show,
        }

    csv_files = {
        "qos-delay-cells.csv": _cell_rows(runs),
        "qos-delay-findings.csv": finding_rows(verdicts),
    }
    drawable: list[Sketch] = [*_overview(verdicts)]
    for run in runs.values():
        drawable += sketches(run)
    return Analysis(verdicts, drawable, csv_files, Path(__file__).parent / "page.html.j2", context)


def _overview(verdicts: Verdicts) -> list[Overview]:
    marks = []
    for claim, answers in verdicts:
        for fidelity, found in answers.items():
            assert isinstance(found, Finding)
            share = _over_published(found.lines)
            marks.append(Mark(claim.title, fidelity, found.outcome, share, None if share is None else 0.0))
    return overview(marks, "measured over published (mean of the cells)", "as published")


def _over_published(lines: Sequence[Line]) -> Interval | None:
    """Return how far the figures are from the published ones, as a share; None where none was published."""
    printed = [(line.value, line.published.split()[-1]) for line in lines if line.published]
    over = [value.over(float(number)) for value, number in printed]
    if not over:
        return None
    return Interval(*(float(np.mean([getattr(one, end) for one in over])) - 1 for end in ("estimate", "low", "high")))


def show(value: float, unit: str) -> str:
    """Return a figure for a table, a dash for NaN; `unit`: us, bytes, packets or × (a ratio)."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "beyond"
    if unit == "us":
        return show_ms(value)
    return f"{value:.0f}" if unit == "bytes" else f"{value:.2f}"


def _cell_rows(runs: Mapping[str, Measured]) -> Iterator[dict[str, object]]:
    for fidelity, held in runs.items():
        for cell in delay_cells(held):
            quantiles = {name: cell.quantile("L", name) or UNKNOWN for name in QUANTILES}
            yield {
                "run_id": " ".join(held.run_ids),
                "fidelity": fidelity,
                "valid": "yes" if cell.valid else "no",
                "delay_pb_ms": f"{cell.delay_pb_ms:g}",
                "delay_bs_ms": f"{cell.delay_bs_ms:g}",
                "qos": cell.qos,
                **{name: cell.document[name] for name in ("sent", "answered", "late", "lost")},
                "end_to_end_made_ms": number(cell.made_ms or None),
                **spread("mean_us", cell.mean("L"), ".4f"),
                **spread("ratio", cell.ratio, ".4f"),
                **{f"{name}_us": number(value.estimate, ".4f") for name, value in quantiles.items()},
                "packets_per_segment": number(cell.packets_per_segment),
                "largest_segment_bytes": number(cell.largest_segment_bytes, ".0f"),
            }
