"""From measured runs to everything that the report shows: verdicts, figures, CSV files, page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from looplab.experiments.loop.fitted import FITTED_CONSTANTS, fitted
from looplab.experiments.loop.report import brokers, makeup, notes, published, steps, tables
from looplab.experiments.loop.report.claims import add_causes, claims
from looplab.experiments.loop.report.comparison import LoopVerdict
from looplab.experiments.loop.report.figures import sketches
from looplab.report.analysis import Analysis, cell_files
from looplab.report.csv_rows import number, spread
from looplab.report.drawing import Drawing, Sections
from looplab.report.drawing import Sketch as AnySketch
from looplab.report.overview import overview
from looplab.report.samples import MeasuredRuns, Runs, by_fidelity
from looplab.report.statistics import Comparison
from looplab.report.verdicts import Verdicts, judge
from looplab.spec.brokers import DEFAULT


def analyse(measured: Sequence[MeasuredRuns]) -> Analysis:
    """Return what these runs show, one of each scenario, fidelity and broker; those of the usual broker are judged."""
    every, measured = measured, brokers.of_broker(measured, DEFAULT)
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)
    add_causes(runs, verdicts)
    usual = by_fidelity([m for m in measured if not m.run.overrides])
    shown = tables.tables({**usual, **_apart(measured)})
    curves = [sketch for fidelity, of_fidelity in usual.items() for sketch in sketches(of_fidelity, fidelity)]

    context = {
        "sections": {
            "claims": "Claims",
            "brokers": "Brokers",
            "steps": "Steps",
            "know": "What to know",
            "tables": "Tables",
        }.items(),
        "broker_lines": brokers.lines(every),
        "broker_null": brokers.null,
        "broker_verdicts": brokers.verdicts(every),
        "counts": Counter(verdict.word for _, answers in verdicts for verdict in answers.values() if verdict.run),
        "run_count": sum(len(m.runs) for m in measured),
        "titles": published.titles(),
        "tables": shown,
        "fitted": [one for one in FITTED_CONSTANTS if any(one in fitted(m.run.parameters) for m in measured)],
        "notes": notes.notes(measured),
        "steps": steps.steps(measured),
    }

    csv_files = {
        "tables.csv": tables.csv_rows(shown),
        "verdicts.csv": _verdict_rows(verdicts),
        **cell_files("loop", every),
    }
    axis = "change of O, or of the figure that the claim names (client priority: the response's p95 without R)"
    drawable: list[AnySketch] = [
        *overview(verdicts, axis),
        *curves,
        *makeup.makeups(usual),
    ]
    return Analysis(verdicts, drawable, csv_files, context, _sections)


def _apart(measured: Sequence[MeasuredRuns]) -> Mapping[str, Runs]:
    """Return the runs that are not as their fidelity has it, by scenario: each named by what differs."""
    by_name: dict[str, dict[str, MeasuredRuns]] = {}
    for m in measured:
        if m.run.overrides:
            by_name.setdefault(", ".join((m.run.fidelity, *m.run.overrides)), {})[m.run.scenario] = m
    return by_name


def _sections(drawn: Sequence[Drawing]) -> Sections:
    sections = [
        (f"Figure {one.number}", one.text, [drawing for drawing in drawn if drawing.figure == one.number])
        for one in published.figures()
    ]
    made = [drawing for drawing in drawn if drawing.figure == makeup.FIGURE]
    return [*sections, *([(makeup.HEADING, makeup.TEXT, made)] if made else [])]


def _verdict_rows(verdicts: Verdicts) -> Iterator[dict[str, object]]:
    for claim, answers in verdicts:
        for fidelity, verdict in answers.items():
            assert isinstance(verdict, LoopVerdict)
            effects: Mapping[str, Comparison | None] = verdict.effects or {"": None}
            for name, e in effects.items():
                us = e if " " in name else None
                yield {
                    "claim": claim.name,
                    "fidelity": fidelity,
                    "verdict": verdict.outcome,
                    "reason": verdict.because_and_reason,
                    "cells": verdict.cells,
                    "statistic": name,
                    "before_us": number(us.before if us else None),
                    "after_us": number(us.after if us else None),
                    **spread("share", e.share if e else None, ".4f"),
                    **spread("change_us", us.change if us else None),
                    "p_value": number(e.p_value if e else None, ".4f"),
                    "least_p": number(e.least_p if e else None, ".5f"),
                    "effect_size_sd": number(e.effect_size if e else None, ".2f"),
                    "compared": f"{e.units[0]} and {e.units[1]} {verdict.units}s" if e else "",
                    "null": verdict.null,
                    "published_share": number(verdict.published.share, ".4f"),
                    "published_before_us": number(verdict.published.before),
                    "published_change_us": number(verdict.published.change),
                    "runs": " ".join(verdict.run_ids),
                    "beside": " ".join(verdict.notes),
                }
