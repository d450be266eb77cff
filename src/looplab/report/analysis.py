"""What the report on an experiment shows: its claims, cells and figures, and what its `report` package adds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from looplab.report.cell import MeasuredCell
from looplab.report.claims import Row, asked, claims_of
from looplab.report.csv_rows import cell_row, number, spread
from looplab.report.drawing import Plot
from looplab.report.overview import overview
from looplab.report.rules import bounded
from looplab.report.samples import MeasuredRuns, by_fidelity
from looplab.report.statistics import UNKNOWN, Interval
from looplab.report.verdicts import Claim, Line, Verdicts, judge
from looplab.spec.columns import Part
from looplab.spec.document import each
from looplab.spec.experiment import Experiment

# Rows of CSV files by file name.
Files = Mapping[str, Iterable[Mapping[str, object]]]


@dataclass(frozen=True)
class Analysis:
    """What the runs of one experiment show.

    `context` is what report/page.html.j2 of the experiment shows beside that of every report. `headings` of figures
    have a text and the numbers of those below.
    """

    verdicts: Verdicts
    plots: Sequence[Plot]
    csv_files: Files
    context: Mapping[str, Any]
    headings: Sequence[tuple[str, str, Sequence[str]]]


def analysed(experiment: Experiment, measured: Sequence[MeasuredRuns]) -> Analysis:
    """Return what these runs show, by the experiment's own report.analysis or by its claims and figures.

    Its report's figures.py may have `context`, which returns more to show.
    """
    if part := experiment.optional_part("report.analysis"):
        made: Analysis = part.analyse(measured)
        return made
    runs = by_fidelity([m for m in measured if not m.run.factors])
    # A claim on a run with a factor set names it.
    verdicts = judge(claims(experiment), by_fidelity(measured, factors=True))
    for _claim, answers in verdicts:
        for verdict in answers.values():
            verdict.share = verdict.share or _over_published(verdict.lines)
    name, figures = experiment.name, experiment.optional_part("report.figures")
    axis = "after over before; of a claim without two sides, measured over published"
    plots = overview(name.replace("-", "_"), verdicts, axis)
    plots += [plot for by_scenario in runs.values() for plot in figures.sketches(by_scenario)] if figures else []
    own: dict[str, Any] = figures.context(measured) if figures and hasattr(figures, "context") else {}
    csv_files = {**cell_files(name, measured), f"{name}-findings.csv": verdict_rows(verdicts)}
    sections = {"claims": "Findings", "cells": "Cells"}.items()
    context = {"sections": sections, "explanations": explanations, **own}
    headings = [(title, "", numbers) for title, numbers in getattr(figures, "TITLES", {}).items()]
    return Analysis(verdicts, plots, csv_files, context, headings)


def claims(experiment: Experiment) -> list[Claim]:
    """Return the claims that an experiment's report judges."""
    own = experiment.optional_part("report.claims")
    if own and hasattr(own, "claims"):
        listed: list[Claim] = own.claims()
        return listed
    bounds = (
        asked(experiment, Row(*claim, experiment.name), bounded(bound)) for claim, bound in experiment.bounds.items()
    )
    return [*claims_of(experiment, own.answers() if own else {}), *bounds]


def _over_published(lines: Sequence[Line]) -> Interval | None:
    """Return how far figures are from the published ones, as a share; None if none was published.

    Averaging the bounds treats the cells' errors as if they went together: too wide rather than too narrow.
    """
    printed = [(line.value, line.published.split()[-1]) for line in lines if line.published]
    ratios = [value.over(float(text)) for value, text in printed if text.replace(".", "", 1).isdigit()]
    sides = ([getattr(ratio, side) for ratio in ratios] for side in ("estimate", "low", "high"))
    return Interval(*map(fmean, sides)).change if ratios else None


def cell_files(name: str, measured: Sequence[MeasuredRuns]) -> Files:
    """Return the CSV file of all cells."""
    return {f"{name}-cells.csv": (cell_row(m, cell) for m in measured for cell in m.cells.values())}


def verdict_rows(verdicts: Verdicts) -> Iterator[dict[str, object]]:
    """Yield a row of a CSV file for each line of each verdict; one for a verdict without lines."""
    for claim, answers in verdicts:
        for fidelity, verdict in answers.items():
            for line in verdict.lines or [Line("", UNKNOWN, unit="")]:
                both = line.compared
                yield {
                    "claim": claim.name,
                    "fidelity": fidelity,
                    "verdict": verdict.outcome,
                    "reason": verdict.because_and_reason,
                    "cells": verdict.cells,
                    "figure": line.what,
                    **spread("value", line.value, ".4f"),
                    "unit": line.unit,
                    "published": line.published,
                    "before": number(both.before if both else None, ".4f"),
                    "after": number(both.after if both else None, ".4f"),
                    **spread("change", both.change if both else None),
                    "p_value": number(both.p_value if both else None, ".4f"),
                    "least_p": number(both.least_p if both else None, ".5f"),
                    "compared": f"{both.units[0]} and {both.units[1]} runs" if both else "",
                    "published_before": number(verdict.published.before, ".4f"),
                    "published_after": number(verdict.published.after, ".4f"),
                    "runs": " ".join(verdict.run_ids),
                    "beside": " ".join(verdict.notes),
                }


def explanations(cell: MeasuredCell) -> Iterator[tuple[str, str]]:
    """Yield what may explain a cell, in words: a switch that is on, names, messages or requests by cause."""
    for part in cell.of_kind(Part):
        value = part.of(cell)
        if part.shape == each("count"):
            words = [f"{name} {count}" for name, count in value.items() if count]
        else:
            names = value if isinstance(value, list) else ()
            words = ["yes"] if value is True else [name for name in names if isinstance(name, str)]
        if words:
            yield part.about, ", ".join(words)
