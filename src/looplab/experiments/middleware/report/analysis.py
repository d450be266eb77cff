"""From measured runs to everything that the report on the middleware shows: findings, figures, CSV files, page."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from looplab.experiments.middleware import NAME, place_text
from looplab.experiments.middleware.report import by_place, load_cells, usable
from looplab.experiments.middleware.report.claims import claims, published_change
from looplab.experiments.middleware.report.comparisons import PROCESSED
from looplab.experiments.middleware.report.figures import TITLES, sketches
from looplab.experiments.middleware.report.optimum import RESAMPLES, optima, optimum
from looplab.experiments.middleware.report.published import published
from looplab.report.analysis import Analysis, analysis
from looplab.report.csv_rows import cell_row, number, spread
from looplab.report.page import show_figure, show_ms
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: both scenarios, at each fidelity."""
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)
    drawn = chain.from_iterable(map(sketches, runs.values()))
    # The last file of a name counts: cells have more columns here.
    files = {"middleware-cells.csv": _cell_rows(measured), "middleware-repetitions.csv": _repetition_rows(measured)}
    axis = "after over before"
    common = analysis(
        NAME, measured, verdicts, sketches=drawn, titles=TITLES, files=files, axis=axis, compared=_compared
    )
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
    return replace(common, context=context)


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
            "out_of_memory": any(cell.starved for cell in every),
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
            first, median, third = cell.quartiles() or (None, None, None)
            yield {
                **cell_row(run, cell),
                **spread("processed_per_s", cell.interval(PROCESSED)),
                **{"q1_per_s": number(first), "median_per_s": number(median), "q3_per_s": number(third)},
                "without_extremes_per_s": number(cell.without_extremes()),
                "out_of_memory": "yes" if cell.starved else "no",
            }


def _repetition_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for run in measured:
        for cell in load_cells(run):
            for one in cell.every:
                name, number_of = one.round
                yield {**cell_row(run, one), "run": name, "repetition": number_of, "seconds": one.document["seconds"]}
