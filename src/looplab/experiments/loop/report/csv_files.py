"""The report as CSV, for those who go on from here: tables, verdicts, curves, runs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from looplab.experiments.loop.report.analysis import Analysis
from looplab.experiments.loop.report.cells import QUANTILES
from looplab.experiments.loop.report.curves import Panel
from looplab.experiments.loop.report.tables import Row
from looplab.report.statistics import Interval

_TABLES = (
    "table,scenario,fidelity,run_id,valid,interval_ms,qos,metric,sent,answered,published_outcome,published_min_us,"
    "published_avg_us,published_max_us,min_us,max_us,mean_us,mean_low_us,mean_high_us,difference_us,difference_low_us,"
    "difference_high_us,p50_us,p50_low_us,p50_high_us,p95_us,p95_low_us,p95_high_us,p99_us,p99_low_us,p99_high_us,remark"
)
_VERDICTS = (
    "claim,fidelity,verdict,reason,cells,statistic,before_us,after_us,difference_us,difference_low_us,"
    "difference_high_us,share,share_low,share_high,p_value,effect_size_sd,repetitions,published_share,runs,beside"
)
_CURVES = "figure,metric,fidelity,scenario,value_us,share,band_low,band_high"
_RUNS = "run_id,scenario,fidelity,used,state,remark"


def write_csv_files(out: Path, analysis: Analysis, drawn: Sequence[Panel]) -> None:
    _write(out / "tables.csv", _TABLES, _table_lines(analysis))
    _write(out / "verdicts.csv", _VERDICTS, _verdict_lines(analysis))
    _write(out / "figures.csv", _CURVES, _curve_lines(drawn))
    _write(out / "runs.csv", _RUNS, _run_lines(analysis))


def _write(path: Path, header: str, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(lines)


def _table_lines(analysis: Analysis) -> Iterator[list[object]]:
    for scenario, by_fidelity in analysis.tables:
        for fidelity, table in by_fidelity.items():
            run = table.measured.run if table.measured else None
            for row in table.rows:
                yield [
                    table.number,
                    scenario,
                    fidelity,
                    run.run_id if run else "",
                    "" if run is None else "yes" if run.valid else "no",
                    f"{row.interval_ms:g}",
                    row.qos,
                    row.metric,
                    *([row.cell.sent, row.cell.answered] if row.cell else ["", ""]),
                    row.printed_outcome,
                    *_numbers([row.printed_us(name) for name in ("min", "avg", "max")]),
                    *_measured(row),
                    row.slip,
                ]


def _measured(row: Row) -> Iterator[str]:
    yield from _numbers([row.extreme_us("min"), row.extreme_us("max")])
    for interval in (row.mean, row.difference, *(row.quantile(name) for name in QUANTILES)):
        yield from _interval(interval)


def _verdict_lines(analysis: Analysis) -> Iterator[list[object]]:
    for claim, verdicts in analysis.verdicts:
        for fidelity, verdict in verdicts.items():
            head = [claim.name, fidelity, verdict.outcome, verdict.reason, verdict.cells]
            published = "" if verdict.published_share is None else f"{verdict.published_share:.4f}"
            tail = [published, " ".join(verdict.run_ids), " ".join(verdict.beside)]
            if not verdict.effects:
                yield [*head, *[""] * 12, *tail]
            for name, effect in verdict.effects.items():
                share = effect.share
                yield [
                    *head,
                    name,
                    *_numbers([effect.before, effect.after]),
                    *_interval(effect.difference),
                    *(f"{value:.4f}" for value in (share.estimate, share.low, share.high)),
                    f"{effect.p_value:.4f}",
                    f"{effect.effect_size:.2f}",
                    effect.repetitions,
                    *tail,
                ]


def _curve_lines(drawn: Sequence[Panel]) -> Iterator[list[object]]:
    for panel in drawn:
        for curve in panel.curves:
            for x, share, low, high in zip(curve.x_us, curve.share, curve.low, curve.high, strict=True):
                line = [panel.figure, panel.metric, panel.fidelity, curve.scenario, f"{x:.3f}"]
                yield [*line, f"{share:.5f}", f"{low:.5f}", f"{high:.5f}"]


def _run_lines(analysis: Analysis) -> Iterator[list[object]]:
    for m in analysis.measured:
        remark = "; ".join(map(str, m.run.document["invalid_because"]))
        yield [m.run.run_id, m.run.scenario, m.run.fidelity, "yes", "valid" if m.run.valid else "INVALID", remark]
    for run in analysis.older:
        yield [run.run_id, run.scenario, run.fidelity, "no", "older", "a newer run of the same scenario is used"]
    for problem in analysis.unusable:
        yield [problem.name, "", "", "no", problem.kind, problem.meaning]


def _numbers(values: Sequence[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.3f}" for value in values]


def _interval(interval: Interval | None) -> list[str]:
    if interval is None:
        return ["", "", ""]
    bounds = [interval.low, interval.high] if interval.known else [None, None]
    return _numbers([interval.estimate, *bounds])
