"""From measured runs to everything that the report shows: verdicts, figures, CSV files, page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from looplab.experiments.loop.fitted import FITTED_CONSTANTS, fitted
from looplab.experiments.loop.report import brokers, makeup, notes, published
from looplab.experiments.loop.report.causes import beside
from looplab.experiments.loop.report.claims import claims
from looplab.experiments.loop.report.comparisons import Comparing
from looplab.experiments.loop.report.figures import Sketch, sketches
from looplab.experiments.loop.report.published import figures
from looplab.experiments.loop.report.tables import Table, tables
from looplab.report.analysis import Analysis
from looplab.report.cell import QUANTILES
from looplab.report.csv_rows import number, spread
from looplab.report.drawing import Drawing, Sections
from looplab.report.drawing import Sketch as AnySketch
from looplab.report.overview import overview
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Comparison, Interval
from looplab.report.verdicts import NO_RUN, Claim, Verdict, Verdicts, judge
from looplab.spec.brokers import DEFAULT


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show, one of each scenario, fidelity and broker; those of the usual broker are judged."""
    every, measured = measured, brokers.of_broker(measured, DEFAULT)
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)
    for claim, answers in verdicts:
        for fidelity, verdict in answers.items():
            verdict.beside += beside(claim.name, fidelity, runs)
    shown = tables(runs)
    curves = [sketch for fidelity, held in runs.items() for sketch in sketches(held, fidelity)]

    context = {
        "sections": {"claims": "Claims", "brokers": "Brokers", "know": "What to know", "tables": "Tables"}.items(),
        "broker_lines": brokers.lines(every),
        "broker_null": brokers.null,
        "broker_verdicts": brokers.verdicts(every),
        "counts": Counter(v.outcome for _, held in verdicts for v in held.values() if v.outcome != NO_RUN),
        "run_count": sum(len(m.runs) for m in measured),
        "titles": published.titles(),
        "tables": shown,
        "fitted": [one for one in FITTED_CONSTANTS if any(one in fitted(m.run.parameters) for m in measured)],
        "notes": notes.notes(measured),
        "setup": notes.setup(measured),
    }

    csv_files = {
        "tables.csv": _table_rows(shown),
        "verdicts.csv": _verdict_rows(verdicts),
        "figures.csv": _curve_rows(curves),
        "ledger.csv": makeup.ledger_rows(measured),
        "brokers.csv": brokers.rows(every),
    }
    axis = "change of O (of the response's p95 where the client is prioritised)"
    drawable: list[AnySketch] = [*overview(verdicts, axis, _compared), *curves, *makeup.makeups(runs)]
    return Analysis(verdicts, drawable, csv_files, context, _figures)


def _figures(drawn: Sequence[Drawing]) -> Sections:
    found = [(f"Figure {one.number}", one.text, [d for d in drawn if d.figure == one.number]) for one in figures()]
    return [*found, *makeup.section(drawn)]


def _compared(_claim: Claim, verdict: Verdict) -> tuple[Interval | None, float | None]:
    assert isinstance(verdict, Comparing)
    effect = verdict.effects.get(verdict.judged)
    return effect.share if effect else None, verdict.published_share


def _table_rows(shown: Sequence[tuple[str, Mapping[str, Table]]]) -> Iterator[dict[str, object]]:
    for scenario, held in shown:
        for fidelity, table in held.items():
            run = table.measured.run if table.measured else None
            for row in table.rows:
                yield {
                    "table": table.number,
                    "scenario": scenario,
                    "fidelity": fidelity,
                    "run_id": " ".join(table.measured.run_ids) if table.measured else "",
                    "valid": "" if run is None else "yes" if run.valid else "no",
                    "interval_ms": f"{row.interval_ms:g}",
                    "qos": row.qos,
                    "metric": row.metric,
                    "sent": row.cell.sent if row.cell else "",
                    "answered": row.cell.answered if row.cell else "",
                    "lost_by": row.lost_by,
                    "standing": row.standing,
                    "published_outcome": row.printed_outcome,
                    **{f"published_{name}_us": number(row.printed_us(name)) for name in ("min", "avg", "max")},
                    **{f"{name}_us": number(row.extreme_us(name)) for name in ("min", "max")},
                    **spread("mean_us", row.mean),
                    **spread("difference_us", row.difference),
                    **{
                        key: text
                        for name in QUANTILES
                        for key, text in spread(f"{name}_us", row.quantile(name)).items()
                    },
                    "remark": row.slip,
                }


def _verdict_rows(verdicts: Verdicts) -> Iterator[dict[str, object]]:
    for claim, answers in verdicts:
        for fidelity, verdict in answers.items():
            assert isinstance(verdict, Comparing)
            effects: Mapping[str, Comparison | None] = verdict.effects or {"": None}
            for name, e in effects.items():
                yield {
                    "claim": claim.name,
                    "fidelity": fidelity,
                    "verdict": verdict.outcome,
                    "reason": verdict.reason,
                    "cells": verdict.cells,
                    "statistic": name,
                    "before_us": number(e.before if e else None),
                    "after_us": number(e.after if e else None),
                    **spread("share", e.share if e else None, ".4f"),
                    "p_value": number(e.p_value if e else None, ".4f"),
                    "least_p": number(e.least_p if e else None, ".5f"),
                    "effect_size_sd": number(e.effect_size if e else None, ".2f"),
                    "compared": f"{e.units[0]} and {e.units[1]} {verdict.units}s" if e else "",
                    "null": verdict.null,
                    "published_share": number(verdict.published_share, ".4f"),
                    "runs": " ".join(verdict.run_ids),
                    "beside": " ".join(verdict.beside),
                }


def _curve_rows(drawable: Sequence[Sketch]) -> Iterator[dict[str, object]]:
    for sketch in drawable:
        for curve in sketch.curves:
            for x, share, low, high in zip(curve.x_us, curve.share, curve.low, curve.high, strict=True):
                yield {
                    "figure": sketch.figure,
                    "metric": sketch.metric,
                    "fidelity": sketch.fidelity,
                    "scenario": curve.scenario,
                    "value_us": f"{x:.3f}",
                    "share": f"{share:.5f}",
                    "band_low": f"{low:.5f}",
                    "band_high": f"{high:.5f}",
                }
