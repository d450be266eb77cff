"""What the report on an experiment shows unless its `report` package says more: claims, cells, the figure of all
claims."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from looplab.report.cell import MeasuredCell
from looplab.report.claims import claims, mean_of
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
    return by_spec(experiment, measured)


def by_spec(experiment: Experiment, measured: Sequence[Measured], **more: Any) -> Analysis:
    """Return what these runs show by claims.py and figures.py of the experiment's report; `more` is as in `analysis`.

    Runs with a factor set are no part of the claims, but for one that asks for "SCENARIO FACTOR=value" by name.
    `add_causes` of claims.py puts other causes beside verdicts.
    """
    runs = by_fidelity([m for m in measured if not m.run.factors])
    named = {name: dict(by_scenario) for name, by_scenario in runs.items()}
    for m in measured:
        if m.run.factors:
            named.setdefault(m.run.fidelity, {})[" ".join((m.run.scenario, *m.run.factors))] = m
    verdicts = judge(claims(experiment), named)
    if add_causes := getattr(experiment.optional_part("report.claims"), "add_causes", None):
        add_causes(runs, verdicts)
    figures = experiment.optional_part("report.figures")
    if figures:
        sketches = [sketch for by_scenario in runs.values() for sketch in figures.sketches(by_scenario)]
        more = {"sketches": sketches, "titles": figures.TITLES, **more}
    return analysis(experiment.name, measured, verdicts, **more)


def analysis(
    name: str,
    measured: Sequence[Measured],
    verdicts: Verdicts,
    *,
    sketches: Iterable[Sketch] = (),
    titles: Mapping[str, Sequence[str]] | None = None,
    files: Files | None = None,
    axis: str = "measured over published (mean of each finding's figures)",
    compared: Compared | None = None,
) -> Analysis:
    """Return an analysis with CSV files of cells and findings; `titles` are headings with their figures' numbers."""
    csv_files = {**cell_files(name, measured), **(files or {}), f"{name}-findings.csv": finding_rows(verdicts)}
    context = {"sections": {"claims": "Findings", "cells": "Cells"}.items(), "show": show, "parts": parts}
    same = "no change" if compared else "as published"
    drawable = [*overview(verdicts, axis, compared or over_published, same), *sketches]
    return Analysis(verdicts, drawable, csv_files, context, partial(under, titles or {}))


def cell_files(name: str, measured: Sequence[Measured]) -> Files:
    """Return the CSV files of all cells, and of each part of them that has rows."""
    cells = (cell_row(m, cell) for m in measured for cell in m.cells.values())
    kinds = {type(cell) for m in measured for cell in m.cells.values()}
    lists = {part.name: part_rows(measured, part) for kind in kinds for part in kind.of_kind(Part) if part.listed}
    return {
        f"{name}-cells.csv": cells,
        **{f"{name}-{part.replace('_', '-')}.csv": rows for part, rows in lists.items()},
    }


def over_published(_claim: Claim, verdict: Verdict) -> tuple[Interval | None, float | None]:
    """Return how far a finding's figures are from the published ones, as a share; None if none was published."""
    lines = verdict.lines if isinstance(verdict, Finding) else ()
    printed = [(line.value, line.published.split()[-1]) for line in lines if line.published]
    ratios = [value.over(float(text)) for value, text in printed if text.replace(".", "", 1).isdigit()]
    return (mean_of(ratios).change, 0.0) if ratios else (None, None)


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
