"""Cells of a run as text for Prometheus: those of the running run, and figures of stored ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from looplab.metrics.distributions import Cell, joined
from looplab.metrics.runs import cell_started_text, current_text
from looplab.metrics.text_format import line

# Names of quantiles in run.json, and the label `q` of each.
QUANTILES = {
    "min": "0",
    "p25": "0.25",
    "p50": "0.5",
    "p75": "0.75",
    "p95": "0.95",
    "p99": "0.99",
    "p999": "0.999",
    "max": "1",
}
# A cell of run.json, and the figures of one: labels beside those of the cell, and the value.
StoredCell = Mapping[str, Any]
Values = Iterable[tuple[Mapping[str, str], float]]
Labelled = Sequence[tuple[Mapping[str, str], StoredCell]]


def running_texts(family: str, run_id: str, begun: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of a running run; cells are many, so only the current one has a histogram."""
    if not begun:
        return {}
    parts = [cell.texts() for cell in begun]
    latency = f"{family}_latency_seconds"
    histograms = (latency, f"{family}_send_lateness_seconds")
    return {
        **joined([{name: text for name, text in part.items() if name not in histograms} for part in parts]),
        **_started(family, run_id, [cell.labels for cell in begun]),
        f"{family}_cell_current": current_text(family, begun),
        latency: parts[-1].get(latency, ""),
    }


def stored_texts(
    family: str, run_id: str, found: Labelled, figures: Mapping[str, Callable[[StoredCell], Values]]
) -> dict[str, str]:
    """Return the sample lines of stored cells; `figures` by the rest of a family's name."""
    texts = {
        f"{family}_{name}": "".join(
            line(f"{family}_{name}", {**labels, **more}, value)
            for labels, cell in found
            for more, value in values(cell)
        )
        for name, values in figures.items()
    }
    return {**texts, **_started(family, run_id, [labels for labels, _cell in found])}


def _started(family: str, run_id: str, labels: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {f"{family}_cell_run_started_timestamp_seconds": cell_started_text(family, run_id, labels)}


def figure(*keys: str, divisor: float = 1, **labels: str) -> Callable[[StoredCell], Values]:
    """Return a function that looks one figure up in a cell; it finds none where the figure was not measured."""

    def look_up(cell: StoredCell) -> Values:
        found: Any = cell
        for key in keys:
            found = (found or {}).get(key)
        return [] if found is None else [(labels, found / divisor if divisor != 1 else found)]

    return look_up


def counts(*outcomes: str) -> Callable[[StoredCell], Values]:
    """Return a function that gives the messages of a cell by outcome."""
    return lambda cell: [({"outcome": outcome}, cell[outcome]) for outcome in outcomes]


def quantiles(key: str, **labels: str) -> Callable[[StoredCell], Values]:
    """Return a function that gives the quantiles in seconds of a cell's figures `key`, which are in us."""
    return lambda cell: [
        ({**labels, "q": q}, value / 1e6)
        for name, q in QUANTILES.items()
        if (value := (cell[key] or {}).get(name)) is not None
    ]


def together(*parts: Callable[[StoredCell], Values]) -> Callable[[StoredCell], Values]:
    """Return a function that gives the figures of all `parts`."""
    return lambda cell: [value for part in parts for value in part(cell)]
