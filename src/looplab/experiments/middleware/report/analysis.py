"""From measured runs to everything that the report on the middleware shows: findings, figures, CSV files, page."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from looplab.experiments.middleware import place_text
from looplab.experiments.middleware.report import by_place, load_cells, usable
from looplab.experiments.middleware.report.claims import claims, published_change
from looplab.experiments.middleware.report.comparisons import PROCESSED
from looplab.experiments.middleware.report.figures import TITLES, sketches
from looplab.experiments.middleware.report.optimum import RESAMPLES, optima, optimum
from looplab.experiments.middleware.report.published import published
from looplab.report.analysis import Analysis
from looplab.report.csv_rows import cell_row, number, spread
from looplab.report.drawing import Sketch, under
from looplab.report.finding import finding_rows
from looplab.report.overview import overview
from looplab.report.page import show_figure, show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: both scenarios, at each fidelity."""
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)
    context = {
        "sections": (("claims", "Findings"), ("optima", "Optimal loads"), ("cells", "Cells")),
        "show": show,
        "optima": [(m, list(optima(m).values())) for m in measured],
        "table_1": [(m, list(_table_1(m))) for m in measured if any(cell.balancer for cell in usable(m))],
        "published_table": list(_published_table()),
        "load_cells": load_cells,
        "place_text": place_text,
        "resamples": RESAMPLES,
    }
    csv_files = {
        "middleware-cells.csv": _cell_rows(measured),
        "middleware-repetitions.csv": _repetition_rows(measured),
        "middleware-findings.csv": finding_rows(verdicts),
    }
    drawable: list[Sketch] = [
        *overview(verdicts, "after over before", _compared),
        *(s for by_scenario in runs.values() for s in sketches(by_scenario)),
    ]
    return Analysis(verdicts, drawable, csv_files, context, partial(under, TITLES))


def _compared(claim: Claim, finding: Verdict) -> tuple[Interval | None, float | None]:
    return finding.tested.share if finding.tested else None, published_change(claim.name)


def _table_1(run: Measured) -> Iterator[dict[str, Any]]:
    """Yield the rows of the paper's Tables 1 and 2: what each placement processes at the optimal load of the best."""
    places = by_place(usable(run))
    load = max((optimum(loads) for loads in places.values()), key=lambda best: best.processed).load
    cells = {place: cell for place, loads in places.items() for cell in loads if cell.devices == load}
    processed = {place: cell.interval(PROCESSED) for place, cell in cells.items()}
    most = max((value.estimate for value in processed.values()), default=math.nan)
    for place, every in by_place(load_cells(run)).items():
        yield {
            "place": place_text(*place),
            "load": load,
            "cell": cells.get(place),
            "processed": processed.get(place),
            "out_of_memory": any(cell.out_of_memory for cell in every),
            "against_best": processed[place].estimate / most - 1 if place in processed else None,
        }


def _published_table() -> Iterator[dict[str, Any]]:
    """Yield the rows of Tables 1 and 2 as printed."""
    printed, shares = published("processed"), published("memory share")
    for (nodes, cores, balancer), count in printed.items():
        yield {
            "place": place_text(True, balancer, nodes, cores),
            "processed": count,
            "against_best": count / max(printed.values()) - 1,
            "memory": shares[nodes, cores, balancer],
        }


def show(value: float, unit: str) -> str:
    """Return a figure for a table, a dash for NaN; `unit`: us, share (signed), part, devices or requests."""
    forms: dict[str, Callable[[float], str]] = {
        "us": show_ms,
        "part": "{:.2%}".format,
        "share": lambda share: f"{round(share, 3) + 0.0:+.1%}".replace("-", "−"),
        "devices": "{:.0f}".format,
    }
    return show_figure(
        value,
        forms.get(unit, lambda value_shown: f"{value_shown:.0f}" if value_shown >= 1000 else f"{value_shown:.4g}"),
    )


def _cell_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for run in measured:
        for cell in load_cells(run):
            quartiles = cell.quartiles() or (None, None, None)
            times = {name: cell.times_us(name) for name in ("response", "sent_response", "server")}
            yield {
                **cell_row(run, cell),
                **spread("processed_per_s", cell.interval(PROCESSED)),
                **dict(zip(("q1_per_s", "median_per_s", "q3_per_s"), map(number, quartiles), strict=True)),
                "without_extremes_per_s": number(cell.without_extremes()),
                **{f"{name}_{q}_us": number(figures.get(q)) for name, figures in times.items() for q in ("p50", "p99")},
                **spread("cpu_per_request_us", cell.interval("cpu_per_request")),
                "memory_bytes_at_start": cell.document.get("memory_bytes_at_start") or "",
                "memory_bytes_at_end": cell.document.get("memory_bytes_at_end") or "",
                "out_of_memory": "yes" if cell.out_of_memory else "no",
            }


def _repetition_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for run in measured:
        for cell in load_cells(run):
            for one in cell.every:
                yield {
                    **cell_row(run, one),
                    "run": one.round[0],
                    "repetition": one.round[1],
                    "seconds": one.document["seconds"],
                    "response_p50_us": number(one.figure("response.p50")),
                    "server_p50_us": number(one.figure("server.p50")),
                }
