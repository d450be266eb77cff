"""Runs of the counter as text for Prometheus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.metrics.view import CellsView

from looplab.metrics.distributions import Cell, Distribution, joined
from looplab.metrics.runs import current_text
from looplab.metrics.text_format import line

FAMILY = "counter"
FAMILIES = {
    "counter_latency_seconds": ("histogram", "How long a sleep took."),
    "counter_messages_sent_total": ("counter", "Sleeps begun."),
    "counter_messages_total": ("counter", "Sleeps by outcome."),
    "counter_latency_quantile_seconds": ("gauge", "Exact quantile of the sleeps."),
    "counter_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
}
VIEW = CellsView("sleep_ms", "sleep", "took up to x, sleeps of", {"S": "the sleep"})


class CounterCell(Cell):
    """The sleeps of one length; watch knows cells by QoS, too."""

    def __init__(self, fidelity: str, sleep_ms: float) -> None:
        labels = {"scenario": "counter", "fidelity": fidelity, "sleep_ms": f"{sleep_ms:g}", "qos": "0"}
        super().__init__(FAMILY, labels, {"S": Distribution()})


def cells(parameters: Mapping[str, Any]) -> list[CounterCell]:
    """Return the cells of a run in their order."""
    return [CounterCell(str(parameters["fidelity"]), float(sleep_ms)) for sleep_ms in parameters["sleeps_ms"]]


def cell_texts(_run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of the running run."""
    begun = [cell for cell in found if cell.sent]
    return {**joined([cell.texts() for cell in begun]), "counter_cell_current": current_text(FAMILY, begun)}


def stored_texts(_folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json."""
    name = "counter_messages_sent_total"
    found = [(CounterCell(str(run["fidelity"]), cell["sleep_ms"]).labels, cell["sent"]) for cell in run["cells"]]
    return {name: "".join(line(name, labels, sent) for labels, sent in found)}
