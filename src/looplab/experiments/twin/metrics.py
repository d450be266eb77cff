"""Runs of twin as text for Prometheus, the running one and stored ones."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.metrics.distributions import Cell, Distribution, bounds_s, joined
from looplab.metrics.runs import cell_started_text, current_text
from looplab.metrics.text_format import Texts, line
from looplab.metrics.view import CellsView

FAMILY = "twin"
FAMILIES = {
    "twin_latency_seconds": ("histogram", "From sent to stored: the cell that is measured now."),
    "twin_latency_quantile_seconds": ("gauge", "Exact quantile of a cell's time from sent to stored."),
    "twin_messages_total": ("counter", "Messages of a cell by outcome."),
    "twin_messages_sent_total": ("counter", "Messages of a cell that were sent."),
    "twin_queue_length": ("gauge", "Messages of a running cell that were sent and have no outcome yet."),
    "twin_queue_max": ("gauge", "Longest queue of a finished cell, in messages."),
    "twin_drained_seconds": ("gauge", "From the last message sent to the last one stored."),
    "twin_rate_out_per_second": ("gauge", "Messages stored a second, from the first to the last."),
    "twin_broker_rate_per_second": ("gauge", "Messages stored a second through each broker."),
    "twin_limit_per_second": ("gauge", "Highest sustained rate that a search found; limited_by says what limits it."),
    "twin_send_lateness_quantile_seconds": ("gauge", "Exact quantile of a cell's send lateness."),
    "twin_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "twin_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
}
_SHOWN = {"stored": "stored", "lost": "lost", "refused": "ref."}
VIEW = CellsView("cell", "cell", "stored within x, sent each", {"S": "sent to stored"}, unit="", outcomes=_SHOWN)
COLUMNS = ()
BROKER_TOPICS: Mapping[str, Callable[[bytes], Texts]] = {}
# 0.1 ms to 100 s: with a queue of a thousand messages and 15 a second the last one waits for a minute.
BOUNDS_S = bounds_s(-4, 2)
# The outcome of a live row, as this experiment names it.
OUTCOMES = {"answered": "stored", "late": "stored", "robot_error": "refused", "lost": "lost"}
_STORED = ("stored", "lost", "refused")
_QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
_STARTED = "twin_cell_run_started_timestamp_seconds"
_HISTOGRAMS = ("twin_latency_seconds", "twin_send_lateness_seconds")


def twin_labels(run: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, str]:
    """Return what a cell is told apart by; `cell` is one of run.json, `run` has its scenario and fidelity.

    The label `cell` has all of it but QoS in a few words.
    """
    interval, brokers = f"{cell['interval_ms']:g}", str(cell["brokers"])
    several = [f"{brokers} {cell['placement']}"] if brokers != "1" else []
    again = [f"#{cell['repetition'] + 1}"] if cell["repetition"] else []
    return {
        "scenario": str(run["scenario"]),
        "fidelity": str(run["fidelity"]),
        "cell": ", ".join([f"{interval} ms", *several, str(cell["write_mode"]), *again]),
        "interval_ms": interval,
        "brokers": brokers,
        "placement": str(cell["placement"]),
        "write_mode": str(cell["write_mode"]),
        "qos": str(cell["qos"]),
        "repetition": str(cell["repetition"]),
    }


class TwinCell(Cell):
    """One cell of the running run."""

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__(FAMILY, labels, {"S": Distribution(BOUNDS_S)})
        self.outcomes = dict.fromkeys(_STORED, 0)

    def add_outcome(self, outcome: str) -> None:
        """Count one message whose fate is known."""
        super().add_outcome(OUTCOMES[outcome])

    def add_latency(self, total_ns: int, *more: int) -> None:
        """Count one message stored so long after it was sent."""
        self.latencies["S"].add(total_ns)

    @property
    def queue(self) -> int:
        """Messages that were sent and have no outcome yet."""
        return self.sent - sum(self.outcomes.values())


def cells(parameters: Mapping[str, Any]) -> list[TwinCell]:
    """Return the cells of a run in the order in which they are measured."""
    return [
        TwinCell(twin_labels(parameters, {**cell, "repetition": cell["iteration"]})) for cell in parameters["cells"]
    ]


def cell_texts(run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of the running run; histograms of the cell that is measured alone, for cells are many."""
    begun = [cell for cell in found if isinstance(cell, TwinCell) and cell.sent]
    if not begun:
        return {}
    parts = [cell.texts() for cell in begun]
    name = "twin_queue_length"
    return {
        **joined([{family: text for family, text in part.items() if family not in _HISTOGRAMS} for part in parts]),
        name: "".join(line(name, cell.labels, cell.queue) for cell in begun),
        "twin_cell_current": current_text(FAMILY, begun),
        _STARTED: cell_started_text(FAMILY, run_id, [cell.labels for cell in begun]),
        _HISTOGRAMS[0]: parts[-1].get(_HISTOGRAMS[0], ""),
    }


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    found = [(twin_labels(run, cell), cell) for cell in run["cells"] if cell.get("valid", True)]
    quantiles, messages, limit = "twin_latency_quantile_seconds", "twin_messages_total", "twin_limit_per_second"
    return {
        _STARTED: cell_started_text(FAMILY, folder.name, [labels for labels, _cell in found]),
        quantiles: "".join(
            line(quantiles, {**labels, "metric": "S", "q": q}, cell["storage_delay_us"][stat] / 1e6)
            for labels, cell in found
            for stat, q in _QUANTILES.items()
            if cell["storage_delay_us"].get(stat) is not None
        ),
        messages: "".join(
            line(messages, {**labels, "outcome": outcome}, cell[outcome])
            for labels, cell in found
            for outcome in _STORED
        ),
        "twin_broker_rate_per_second": "".join(_broker_lines(labels, cell) for labels, cell in found),
        limit: "".join(
            line(limit, {**labels, "limited_by": str(cell["limited_by"])}, cell["limit_per_s"])
            for labels, cell in found
            if cell.get("limit_per_s") is not None
        ),
        **{
            family: "".join(line(family, labels, cell[key]) for labels, cell in found if cell[key] is not None)
            for family, key in _FIGURES.items()
        },
    }


_FIGURES = {
    "twin_messages_sent_total": "sent",
    "twin_queue_max": "queue_max",
    "twin_drained_seconds": "drained_s",
    "twin_rate_out_per_second": "rate_out_per_s",
}


def _broker_lines(labels: Mapping[str, str], cell: Mapping[str, Any]) -> str:
    """Return the rate through each broker."""
    name = "twin_broker_rate_per_second"
    return "".join(
        line(name, {**labels, "broker": str(one["broker"])}, one["rate_out_per_s"])
        for one in cell["per_broker"]
        if one["rate_out_per_s"] is not None
    )
