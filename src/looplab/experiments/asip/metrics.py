"""Runs of asip and asip-throughput as text for Prometheus, the running one and stored ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.document import COLUMNS
from looplab.experiments.asip.parameters import PLACEMENTS
from looplab.metrics.distributions import Cell, Distribution, bounds_s, joined
from looplab.metrics.runs import cell_started_text, current_text
from looplab.metrics.text_format import line
from looplab.metrics.view import CellsView

__all__ = ["BROKER_TOPICS", "COLUMNS", "FAMILIES", "VIEW", "cell_texts", "cells", "stored_texts"]

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
BROKER_TOPICS: Mapping[str, Callable[[bytes], Mapping[str, str]]] = {}
# 0.1 ms to 1 s.
BOUNDS_S = bounds_s(-4, 0)
_QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
_OUTCOMES = ("answered", "late", "lost")
_LATENCIES = {"latency": "latency_us", "edge": "edge_latency_us"}
_STARTED = "asip_cell_run_started_timestamp_seconds"
_HISTOGRAMS = ("asip_latency_seconds", "asip_send_lateness_seconds")


def cell_labels(scenario: str, fidelity: str, key: tuple[str, str, str], qos: int) -> dict[str, str]:
    """Return what a cell is told apart by; `client` is its key as one word, for a legend."""
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
            self.latencies["latency"].add(total_ns)


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
    """Return the sample lines of the running run; the histogram is that of the cell that is measured."""
    begun = [cell for cell in found if cell.sent and isinstance(cell, AsipCell)]
    parts = [cell.texts() for cell in begun]
    latencies = [({**cell.labels, "metric": "latency"}, cell.latencies["latency"]) for cell in begun]
    texts = {
        **joined([{family: text for family, text in part.items() if family not in _HISTOGRAMS} for part in parts]),
        "asip_latency_mean_seconds": "".join(
            line("asip_latency_mean_seconds", labels, held.sum_ns / held.count / 1e9)
            for labels, held in latencies
            if held.count
        ),
        "asip_tracked_hz": "".join(
            line("asip_tracked_hz", cell.labels, max(cell.steps)) for cell in begun if cell.steps
        ),
        "asip_step_tracked_ratio": "".join(_step_text(cell.labels, cell.steps.items()) for cell in begun),
        "asip_cell_current": current_text(FAMILY, begun),
        _STARTED: cell_started_text(FAMILY, run_id, [cell.labels for cell in begun]),
    }
    return {**texts, _HISTOGRAMS[0]: parts[-1].get(_HISTOGRAMS[0], "")} if parts else texts


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    found = [(_labels(run, cell), cell) for cell in run["cells"] if cell.get("valid", True)]
    by_frequency = run["scenario"] == THROUGHPUT
    own = _frequency_texts(found) if by_frequency else _latency_texts(found)
    counts = "asip_messages_total"
    return {
        **own,
        _STARTED: cell_started_text(FAMILY, folder.name, [labels for labels, _cell in found]),
        counts: "".join(
            line(counts, {**labels, "outcome": outcome}, cell[outcome])
            for labels, cell in found
            for outcome in _OUTCOMES
        ),
        "asip_messages_sent_total": _gauge("asip_messages_sent_total", found, "tests"),
    }


def _labels(run: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, str]:
    key = (str(cell["language"]), str(cell["transport"]), str(cell["placement"]))
    return cell_labels(str(run["scenario"]), str(run["fidelity"]), key, int(cell["qos"]))


Found = Sequence[tuple[dict[str, str], Mapping[str, Any]]]


def _latency_texts(found: Found) -> dict[str, str]:
    quantiles, means, wire = "asip_latency_quantile_seconds", "asip_latency_mean_seconds", "asip_wire_seconds"
    held = [({**labels, "metric": name}, cell[key]) for labels, cell in found for name, key in _LATENCIES.items()]
    return {
        quantiles: "".join(
            line(quantiles, {**labels, "q": q}, figures[stat] / 1e6)
            for labels, figures in held
            for stat, q in _QUANTILES.items()
            if figures.get(stat) is not None
        ),
        means: "".join(
            line(means, labels, figures["avg"] / 1e6) for labels, figures in held if figures.get("avg") is not None
        ),
        wire: _gauge(wire, found, "wire_us", 1e6),
    }


def _frequency_texts(found: Found) -> dict[str, str]:
    return {
        **{
            family: _gauge(family, found, family.removeprefix("asip_"))
            for family in ("asip_tracked_hz", "asip_wire_hz")
        },
        "asip_step_tracked_ratio": "".join(
            _step_text(
                labels, ((s["frequency_hz"], s["edges_out"] / s["edges_in"]) for s in cell["steps"] if s["edges_in"])
            )
            for labels, cell in found
        ),
    }


def _step_text(labels: Mapping[str, str], steps: Iterable[tuple[float, float]]) -> str:
    # A frequency that was tried twice counts once.
    return "".join(
        line("asip_step_tracked_ratio", {**labels, "frequency_hz": f"{hz:.4g}"}, ratio)
        for hz, ratio in {f"{hz:.4g}": (hz, ratio) for hz, ratio in sorted(steps)}.values()
    )


def _gauge(family: str, found: Found, key: str, divisor: float = 1) -> str:
    """Return a figure of each cell that has it."""
    held = [(labels, cell.get(key)) for labels, cell in found]
    return "".join(line(family, labels, value / divisor) for labels, value in held if value is not None)
