"""Runs of asip and asip-throughput as text for Prometheus, the running one and stored ones."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.document import COLUMNS
from looplab.experiments.asip.parameters import PLACEMENTS
from looplab.metrics import cells as shared
from looplab.metrics.distributions import Cell, Distribution, bounds_s
from looplab.metrics.text_format import line
from looplab.metrics.view import CellsView

__all__ = ["COLUMNS", "FAMILIES", "VIEW", "cell_texts", "cells", "stored_texts"]

FAMILY = "asip"
FAMILIES = {
    "asip_latency_seconds": ("histogram", "From setting a pin to its notice: the cell that is measured now."),
    "asip_latency_quantile_seconds": ("gauge", "Exact quantile of a latency: of the client, or of the oscilloscope."),
    "asip_latency_mean_seconds": ("gauge", "Mean of a latency: of the client, or of the oscilloscope."),
    "asip_wire_seconds": ("gauge", "How long the bytes of one test take on the wire."),
    "asip_tracked_hz": ("gauge", "Highest frequency of the square wave that the client copied."),
    "asip_wire_hz": ("gauge", "The frequency whose messages fill the wire."),
    "asip_step_tracked_ratio": ("gauge", "Edges of pin 13 over edges of pin 2, by the frequency of the wave."),
    "asip_messages_total": ("counter", "Tests, or steps of a bisection, by outcome."),
    "asip_messages_sent_total": ("counter", "Tests, or steps of a bisection, that were made."),
    "asip_send_lateness_quantile_seconds": ("gauge", "Exact quantile of a cell's send lateness."),
    "asip_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "asip_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
}
VIEW = CellsView("client", "client", "answered within x, client ", {"latency": "set a pin to its notice"})
# 0.1 ms to 1 s.
BOUNDS_S = bounds_s(-4, 0)
_LATENCIES = {"latency": "latency_us", "edge": "edge_latency_us"}


def cell_labels(scenario: str, fidelity: str, key: tuple[str, str, str], qos: int) -> dict[str, str]:
    """Return the labels of a cell; `client` is its key as one word, for a legend."""
    language, transport, placement = key
    return {
        "scenario": scenario,
        "fidelity": fidelity,
        "client": "-".join(key if placement != "one" else key[:2]),
        "language": language,
        "transport": transport,
        "placement": placement,
        "qos": str(qos),
    }


class AsipCell(Cell):
    """One client over one transport of the running run."""

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__(FAMILY, labels, {"latency": Distribution(BOUNDS_S)})
        self.steps: dict[float, float] = {}

    def add_latency(self, total_ns: int, *more: int) -> None:
        """Count one test answered, or one step tracked; `more` are the columns of COLUMNS."""
        _edge_in, _edge_out, frequency_uhz, edges_in, edges_out = more
        if frequency_uhz > 0 < edges_in:
            self.steps[frequency_uhz / 1e6] = edges_out / edges_in
        else:
            super().add_latency(total_ns)


def cells(parameters: Mapping[str, Any]) -> list[AsipCell]:
    """Return the cells of a run in the order in which they are measured."""
    scenario, fidelity, qos = str(parameters["scenario"]), str(parameters["fidelity"]), int(parameters["qos"])
    return [
        AsipCell(cell_labels(scenario, fidelity, (language, transport, placement), qos))
        for placement in parameters["placements"]
        for language in parameters["languages"]
        for transport in parameters["transports"]
        if transport in PLACEMENTS[placement]
    ]


def cell_texts(run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of the running run."""
    begun = [cell for cell in found if cell.sent and isinstance(cell, AsipCell)]
    mean, tracked, step = "asip_latency_mean_seconds", "asip_tracked_hz", "asip_step_tracked_ratio"
    latencies = [({**cell.labels, "metric": "latency"}, cell.latencies["latency"]) for cell in begun]
    return {
        **shared.running_texts(FAMILY, run_id, begun),
        mean: "".join(line(mean, labels, held.sum_ns / held.count / 1e9) for labels, held in latencies if held.count),
        tracked: "".join(line(tracked, cell.labels, max(cell.steps)) for cell in begun if cell.steps),
        step: "".join(
            line(step, {**cell.labels, **more}, ratio) for cell in begun for more, ratio in _steps(cell.steps.items())
        ),
    }


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    found = [(_labels(run, cell), cell) for cell in run["cells"] if cell.get("valid", True)]
    own = _OF_FREQUENCY if run["scenario"] == THROUGHPUT else _OF_LATENCY
    return shared.stored_texts(FAMILY, folder.name, found, {**_FIGURES, **own})


def _labels(run: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, str]:
    key = (str(cell["language"]), str(cell["transport"]), str(cell["placement"]))
    return cell_labels(str(run["scenario"]), str(run["fidelity"]), key, int(cell["qos"]))


def _steps(steps: Iterable[tuple[float, float]]) -> shared.Values:
    """Return the ratio of edges by frequency; a frequency that was tried twice counts once."""
    return [({"frequency_hz": hz}, ratio) for hz, ratio in {f"{hz:.4g}": ratio for hz, ratio in sorted(steps)}.items()]


def _stored_steps(cell: shared.StoredCell) -> shared.Values:
    return _steps(
        (step["frequency_hz"], step["edges_out"] / step["edges_in"]) for step in cell["steps"] if step["edges_in"]
    )


_FIGURES = {"messages_total": shared.counts("answered", "late", "lost"), "messages_sent_total": shared.figure("tests")}
_OF_LATENCY = {
    "latency_quantile_seconds": shared.together(
        *(shared.quantiles(key, metric=name) for name, key in _LATENCIES.items())
    ),
    "latency_mean_seconds": shared.together(
        *(shared.figure(key, "avg", divisor=1e6, metric=name) for name, key in _LATENCIES.items())
    ),
    "wire_seconds": shared.figure("wire_us", divisor=1e6),
}
_OF_FREQUENCY = {
    "tracked_hz": shared.figure("tracked_hz"),
    "wire_hz": shared.figure("wire_hz"),
    "step_tracked_ratio": _stored_steps,
}
