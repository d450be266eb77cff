"""What the report on an experiment shows unless its `report` package says more: claims, cells, the figure of all
claims."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from looplab.report.cell import MeasuredCell
from looplab.report.claims import claims
from looplab.report.csv_rows import cell_row, part_rows
from looplab.report.drawing import Drawing, Sections, Sketch, under
from looplab.report.finding import Finding, finding_rows
from looplab.report.overview import overview
from looplab.report.page import show_figure, show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, Verdicts, judge
from looplab.spec.columns import Part
from looplab.spec.experiment import Experiment


@dataclass(frozen=True)
class Analysis:
    """What the runs of one experiment show.

    `csv_files` holds rows by file name; `context` is what report/page.html.j2 of the experiment shows beside that of
    every report. `figures` puts the drawn figures under headings, each with a text.
    """

    verdicts: Verdicts
    sketches: Sequence[Sketch]
    csv_files: Mapping[str, Iterable[Mapping[str, object]]]
    context: Mapping[str, Any]
    figures: Callable[[Sequence[Drawing]], Sections] = lambda drawn: under({}, drawn)


Files = Mapping[str, Iterable[Mapping[str, object]]]
# Share and published share of a verdict, for the figure of all claims.
Compared = Callable[[Claim, Verdict], tuple[Interval | None, float | None]]


def analysed(experiment: Experiment, measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: by the experiment's own report.analysis, or by its claims and figures."""
    own = experiment.optional_part("report.analysis")
    if own:
        made: Analysis = own.analyse(measured)
        return made
    runs, figures = by_fidelity(measured), experiment.optional_part("report.figures")
    titles = figures.TITLES if figures else {}
    sketches = [one for by_scenario in runs.values() for one in figures.sketches(by_scenario)] if figures else []
    return analysis(experiment.name, measured, judge(claims(experiment), runs), sketches=sketches, titles=titles)


def analysis(
    name: str,
    measured: Sequence[Measured],
    verdicts: Verdicts,
    *,
    sketches: Iterable[Sketch] = (),
    titles: Mapping[str, Sequence[str]] | None = None,
    files: Files | None = None,
    axis: str = "measured over published (first figure of each finding)",
    compared: Compared | None = None,
    same: str = "no change",
) -> Analysis:
    """Return an analysis with CSV files of cells and findings; `titles` are headings with their figures' numbers."""
    cells = (cell_row(m, cell) for m in measured for cell in m.cells.values())
    kinds = {type(cell) for m in measured for cell in m.cells.values()}
    lists = {part.name: part_rows(measured, part) for kind in kinds for part in kind.of_kind(Part) if part.listed}
    csv_files = {
        f"{name}-cells.csv": cells,
        **{f"{name}-{part.replace('_', '-')}.csv": rows for part, rows in lists.items()},
        **(files or {}),
        f"{name}-findings.csv": finding_rows(verdicts),
    }
    context = {"sections": {"claims": "Findings", "cells": "Cells"}.items(), "show": show, "parts": parts}
    drawable = [*overview(verdicts, axis, compared or first_figure, same), *sketches]
    return Analysis(verdicts, drawable, csv_files, context, partial(under, titles or {}))


def first_figure(_claim: Claim, found: Verdict) -> tuple[Interval | None, float | None]:
    """Return how far the finding's first figure is from the published one, as a share; None if none was published."""
    lines = found.lines if isinstance(found, Finding) else ()
    for line in lines:
        printed = line.published.split()[-1:]
        if printed and printed[0].replace(".", "", 1).isdigit():
            return line.value.over(float(printed[0])).change, 0.0
    return None, None


def show(value: float, unit: str) -> str:
    """Return a figure for a table, a dash for NaN; latencies are in us, shares ("%") and changes are parts of 1."""

    def form(number: float) -> str:
        rounded = unit in ("bytes", "messages", "devices", "Hz") or abs(number) >= 1000
        return f"{number:,.0f}" if rounded else f"{number:.3g}" if abs(number) < 1 else f"{number:.2f}"

    forms: Mapping[str, Callable[[float], str]] = {
        "us": show_ms,
        "%": "{:.2%}".format,
        "change": lambda change: f"{round(change, 3) + 0.0:+.1%}".replace("-", "−"),
    }
    return show_figure(value, forms.get(unit, form))


def parts(cell: MeasuredCell) -> Iterator[tuple[str, str]]:
    """Yield what a part of a cell means and its value in words: numbers by name, words, or yes."""
    for part in cell.of_kind(Part):
        value = part.of(cell)
        if isinstance(value, Mapping):
            numbers = [f"{name} {text}" for name, one in value.items() if (text := _in_words(one))]
        else:
            numbers = ["yes"] if value is True else [one for one in value or () if isinstance(one, str)]
        if numbers:
            yield part.about, ", ".join(numbers)


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(text for one in value if (text := _in_words(one)))
    return f"{value:.4g}" if isinstance(value, int | float) else ""
