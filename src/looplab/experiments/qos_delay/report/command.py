"""Write the report on network delay and QoS, and say in the terminal what it found."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError
from looplab.experiments.loop.report.analysis import FIDELITIES
from looplab.experiments.qos_delay.report.drawing import Drawing, drawings
from looplab.experiments.qos_delay.report.findings import Finding, Question, causes, judge, questions
from looplab.experiments.qos_delay.report.page import page
from looplab.experiments.qos_delay.report.runs import QUANTILES, DelaySelection, select
from looplab.report.statistics import Interval
from looplab.report.stored import UNREAD
from looplab.system.terminal import fitted

PAGE = "qos-delay.html"
_CELLS = (
    "run_id,fidelity,valid,delay_pb_ms,delay_bs_ms,qos,sent,answered,late,lost,end_to_end_made_ms,mean_us,mean_low_us,"
    "mean_high_us,ratio,ratio_low,ratio_high,p50_us,p95_us,p99_us,packets_per_segment,largest_segment_bytes"
)
_FINDINGS = "finding,fidelity,verdict,reason,cell,value,low,high,unit,published,beside"


def write_delay_report(folders: Sequence[Path], out: Path, known: Mapping[Path, Any] = UNREAD) -> bool:
    """Write qos-delay.html, CSV and figures to `out` from the runs in `folders`; False where none can be used.

    `known` is what `documents` has read already. Raises LabError (exit code 3) where `out` cannot be written.
    """
    selection = select(folders, known)
    asked = questions()
    findings = {
        question.name: {fidelity: judge(question, selection.runs.get(fidelity)) for fidelity in FIDELITIES}
        for question in asked
    }
    causes(selection.runs, findings)
    drawn = [drawing for fidelity in FIDELITIES if (run := selection.runs.get(fidelity)) for drawing in drawings(run)]
    try:
        _write(out, selection, asked, findings, drawn)
    except OSError as error:
        raise LabError(
            f"The report cannot be written to {out}: {error.strerror}.", "Name another folder: --out DIR", EXIT_MACHINE
        ) from error
    _say(selection, asked, findings, out)
    return bool(selection.runs)


def _write(
    out: Path,
    selection: DelaySelection,
    asked: Sequence[Question],
    findings: Mapping[str, Mapping[str, Finding]],
    drawn: Sequence[Drawing],
) -> None:
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for drawing in drawn:
        (figures / f"{drawing.name}.svg").write_bytes(drawing.svg)
        (figures / f"{drawing.name}.png").write_bytes(drawing.png)
    _csv(out / "qos-delay-cells.csv", _CELLS, _cell_lines(selection))
    _csv(out / "qos-delay-findings.csv", _FINDINGS, _finding_lines(findings))
    (out / PAGE).write_text(page(selection, FIDELITIES, asked, findings, drawn), encoding="utf-8")


def _say(
    selection: DelaySelection,
    asked: Sequence[Question],
    findings: Mapping[str, Mapping[str, Finding]],
    out: Path,
) -> None:
    cells = sum(len(run.cells) for run in selection.runs.values())
    print(f"qos-delay: {len(selection.runs)} run(s), {cells} cells")
    for question in asked:
        said = [f"{fidelity}: {found.outcome}" for fidelity, found in findings[question.name].items()]
        print(fitted(f"  {question.title}\n      {', '.join(said)}", sys.stdout, " " * 6))
    for problem in selection.unusable:
        print(fitted(problem.told(), sys.stdout))
    # Never broken, so that it can be copied.
    print(f"{out / PAGE}")


def _cell_lines(selection: DelaySelection) -> Iterator[list[object]]:
    for fidelity, held in selection.runs.items():
        for cell in held.cells.values():
            counts = [cell.document[name] for name in ("sent", "answered", "late", "lost")]
            yield [
                held.run.run_id,
                fidelity,
                "yes" if cell.valid else "no",
                f"{cell.delay_pb_ms:g}",
                f"{cell.delay_bs_ms:g}",
                cell.qos,
                *counts,
                f"{cell.made_ms:.3f}" if cell.made_ms else "",
                *_interval(cell.mean_us),
                *_interval(cell.ratio),
                *(_interval(cell.quantiles_us[name])[0] for name in QUANTILES),
                "" if cell.packets_per_segment is None else f"{cell.packets_per_segment:.3f}",
                "" if cell.largest_segment_bytes is None else f"{cell.largest_segment_bytes:.0f}",
            ]


def _finding_lines(findings: Mapping[str, Mapping[str, Finding]]) -> Iterator[list[object]]:
    for name, by_fidelity in findings.items():
        for fidelity, found in by_fidelity.items():
            head, tail = [name, fidelity, found.outcome, found.reason], " ".join(found.beside)
            if not found.lines:
                yield [*head, "", "", "", "", "", "", tail]
            for line in found.lines:
                yield [*head, line.what, *_interval(line.value), line.unit, line.published, tail]


def _interval(value: Interval) -> list[str]:
    return ["" if number != number else f"{number:.4f}" for number in (value.estimate, value.low, value.high)]


def _csv(path: Path, header: str, lines: Iterator[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(lines)
