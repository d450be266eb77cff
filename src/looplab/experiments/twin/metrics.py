"""Runs of twin as text for Prometheus, the running one and stored ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.metrics import cells as shared
from looplab.metrics.distributions import Cell, Distribution, bounds_s
from looplab.metrics.text_format import line
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
# 0.1 ms to 100 s: with a queue of a thousand messages and 15 a second the last one waits for a minute.
BOUNDS_S = bounds_s(-4, 2)
# The outcome of a live row, as this experiment names it.
OUTCOMES = {"answered": "stored", "late": "stored", "robot_error": "refused", "lost": "lost"}
_STORED = ("stored", "lost", "refused")


def twin_labels(run: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a cell; `cell` is one of run.json, `run` has its scenario and fidelity.

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
    """Return the sample lines of the running run."""
    begun = [cell for cell in found if isinstance(cell, TwinCell) and cell.sent]
    name = "twin_queue_length"
    return {
        **shared.running_texts(FAMILY, run_id, begun),
        name: "".join(line(name, cell.labels, cell.queue) for cell in begun),
    }


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    found = [(twin_labels(run, cell), cell) for cell in run["cells"] if cell.get("valid", True)]
    return shared.stored_texts(FAMILY, folder.name, found, _FIGURES)


def _limit(cell: shared.StoredCell) -> shared.Values:
    return [({"limited_by": str(cell["limited_by"]), **more}, value) for more, value in _LIMIT(cell)]


def _broker_rates(cell: shared.StoredCell) -> shared.Values:
    rates = ((str(one["broker"]), one["rate_out_per_s"]) for one in cell["per_broker"])
    return [({"broker": broker}, rate) for broker, rate in rates if rate is not None]


_LIMIT = shared.figure("limit_per_s")
_FIGURES = {
    "messages_total": shared.counts(*_STORED),
    "messages_sent_total": shared.figure("sent"),
    "latency_quantile_seconds": shared.quantiles("storage_delay_us", metric="S"),
    "queue_max": shared.figure("queue_max"),
    "drained_seconds": shared.figure("drained_s"),
    "rate_out_per_second": shared.figure("rate_out_per_s"),
    "broker_rate_per_second": _broker_rates,
    "limit_per_second": _limit,
}
