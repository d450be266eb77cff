"""From measured runs to everything that the report on the middleware shows: findings, figures, CSV files, page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from looplab.experiments.middleware import EXPERIMENT
from looplab.experiments.middleware.report import PROCESSED
from looplab.experiments.middleware.report.claims import published_change
from looplab.experiments.middleware.report.placements import RESAMPLES, load_cells, optima, places, published
from looplab.report.analysis import Analysis, by_spec
from looplab.report.csv_rows import cell_row
from looplab.report.samples import Measured
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: both scenarios, at each fidelity."""
    files = {"middleware-repetitions.csv": _repetition_rows(measured)}
    common = by_spec(EXPERIMENT, measured, files=files, axis="after over before", compared=_compared)
    context = {
        **common.context,
        "sections": (("claims", "Findings"), ("optima", "Optimal loads"), ("cells", "Cells")),
        "optima": [(m, optima(m)) for m in measured],
        "table_1": [list(_table_1(m)) for m in measured if any(cell.balancer for cell in load_cells(m)) and places(m)],
        "published_table": list(_published_table()),
        "resamples": RESAMPLES,
    }
    return replace(common, context=context)


def _compared(claim: Claim, finding: Verdict) -> tuple[Interval | None, float | None]:
    return finding.tested.share if finding.tested else None, published_change(claim.name)


def _table_1(run: Measured) -> Iterator[dict[str, Any]]:
    """Yield the rows of the paper's Tables 1 and 2: what each placement processes at the optimal load of the best."""
    load = max(optima(run), key=lambda best: best.processed).load
    cells = {place: cell for place, loads in places(run).items() for cell in loads if cell.devices == load}
    processed = {place: cell.interval(PROCESSED) for place, cell in cells.items()}
    most = max((value.estimate for value in processed.values()), default=math.nan)
    for place in sorted({cell.place for cell in load_cells(run)}):
        yield {
            "place": place,
            "load": load,
            "cell": cells.get(place),
            "processed": processed.get(place),
            "out_of_memory": any(cell.starved for cell in load_cells(run) if cell.place == place),
            "against_best": processed[place].estimate / most - 1 if place in processed else None,
        }


def _published_table() -> Iterator[dict[str, Any]]:
    """Yield the rows of Tables 1 and 2 as printed."""
    printed, shares = published("processed"), published("memory share")
    for place, count in printed.items():
        against_best = count / max(printed.values()) - 1
        yield {"place": place, "processed": count, "against_best": against_best, "memory": shares[place]}


def _repetition_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for run in measured:
        for cell in load_cells(run):
            for one in cell.every:
                name, number_of = one.unit
                yield {**cell_row(run, one), "run": name, "repetition": number_of, "seconds": one.document["seconds"]}
