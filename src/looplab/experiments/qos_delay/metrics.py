"""Runs of qos-delay as text for Prometheus, the running one and stored ones."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.experiments.qos_delay import NAME
from looplab.metrics.distributions import Cell, Distribution, bounds_s, joined
from looplab.metrics.runs import cell_started_text, current_text
from looplab.metrics.text_format import Texts, line
from looplab.metrics.view import CellsView

FAMILY = "qos_delay"
FAMILIES = {
    "qos_delay_latency_seconds": ("histogram", "Publisher to subscriber: the cell that is measured now."),
    "qos_delay_latency_quantile_seconds": ("gauge", "Exact quantile of a cell's latency from publisher to subscriber."),
    "qos_delay_latency_mean_seconds": ("gauge", "Mean latency of a cell from publisher to subscriber."),
    "qos_delay_latency_ratio": ("gauge", "Mean latency over the mean end-to-end delay that was made."),
    "qos_delay_end_to_end_seconds": ("gauge", "Mean delay of both links together, as it was made."),
    "qos_delay_packets_per_segment": ("gauge", "Mean number of MQTT packets in a TCP segment of the publisher."),
    "qos_delay_messages_total": ("counter", "Messages of a cell by outcome."),
    "qos_delay_messages_sent_total": ("counter", "Messages of a cell that were sent."),
    "qos_delay_send_lateness_quantile_seconds": ("gauge", "Exact quantile of a cell's send lateness."),
    "qos_delay_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "qos_delay_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
}
VIEW = CellsView("pair", "links", "received within x, links of", {"L": "publisher to subscriber"})
COLUMNS = ()
BROKER_TOPICS: Mapping[str, Callable[[bytes], Texts]] = {}
# 1 ms to 10 s: at QoS 2 a message may take seven times the longest delay.
BOUNDS_S = bounds_s(-3, 1)
_QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
_OUTCOMES = ("answered", "late", "lost")
_STARTED = "qos_delay_cell_run_started_timestamp_seconds"
_HISTOGRAMS = ("qos_delay_latency_seconds", "qos_delay_send_lateness_seconds")


def delay_labels(fidelity: str, delay_pb_ms: float, delay_bs_ms: float, qos: int) -> dict[str, str]:
    """Return the labels that identify a cell; `links` says whether both are alike, `end_to_end_ms` is as wanted."""
    return {
        "scenario": NAME,
        "fidelity": fidelity,
        "pair": f"{delay_pb_ms:g}-{delay_bs_ms:g}",
        "links": "symmetrical" if delay_pb_ms == delay_bs_ms else "asymmetrical",
        "end_to_end_ms": f"{delay_pb_ms + delay_bs_ms:g}",
        "qos": str(qos),
    }


class DelayCell(Cell):
    """One pair of link delays at one QoS of the running run."""

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__(FAMILY, labels, {"L": Distribution(BOUNDS_S)})

    def add_latency(self, total_ns: int, *more: int) -> None:
        """Count one message received, in time or late."""
        self.latencies["L"].add(total_ns)


def cells(parameters: Mapping[str, Any]) -> list[DelayCell]:
    """Return the cells of a run in the order in which they are measured."""
    fidelity = str(parameters["fidelity"])
    pairs = [(float(pb), float(bs)) for pb, bs in parameters["pairs_ms"]]
    return [DelayCell(delay_labels(fidelity, *pair, int(qos))) for qos in parameters["qos"] for pair in pairs]


def cell_texts(run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of the running run; histograms of the cell that is measured alone, for cells are many."""
    begun = [cell for cell in found if cell.sent]
    parts = [cell.texts() for cell in begun]
    name = "qos_delay_latency_mean_seconds"
    means = [(cell.labels, cell.latencies["L"]) for cell in begun]
    texts = {
        **joined([{family: text for family, text in part.items() if family not in _HISTOGRAMS} for part in parts]),
        name: "".join(line(name, labels, mean.sum_ns / mean.count / 1e9) for labels, mean in means if mean.count),
        "qos_delay_cell_current": current_text(FAMILY, begun),
        _STARTED: cell_started_text(FAMILY, run_id, [cell.labels for cell in begun]),
    }
    return {**texts, _HISTOGRAMS[0]: parts[-1].get(_HISTOGRAMS[0], "")} if parts else texts


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    fidelity = str(run["fidelity"])
    found = [
        (delay_labels(fidelity, float(cell["delay_pb_ms"]), float(cell["delay_bs_ms"]), int(cell["qos"])), cell)
        for cell in run["cells"]
        if cell.get("valid", True)
    ]
    quantiles, messages = "qos_delay_latency_quantile_seconds", "qos_delay_messages_total"
    return {
        _STARTED: cell_started_text(FAMILY, folder.name, [labels for labels, _cell in found]),
        quantiles: "".join(
            line(quantiles, {**labels, "metric": "L", "q": q}, cell["L_us"][stat] / 1e6)
            for labels, cell in found
            for stat, q in _QUANTILES.items()
            if cell["L_us"].get(stat) is not None
        ),
        messages: "".join(
            line(messages, {**labels, "outcome": outcome}, cell[outcome])
            for labels, cell in found
            for outcome in _OUTCOMES
        ),
        **{
            family: "".join(
                line(family, labels, value) for labels, cell in found if (value := figure(cell)) is not None
            )
            for family, figure in _FIGURES.items()
        },
    }


def _figure(scale: float, *keys: str) -> Callable[[Mapping[str, Any]], float | None]:
    """Return a function that looks a figure up in a cell of run.json, None where it was not measured."""

    def look_up(cell: Mapping[str, Any]) -> float | None:
        found: Any = cell
        for key in keys:
            found = (found or {}).get(key)
        return None if found is None else found / scale if scale != 1 else found

    return look_up


_FIGURES = {
    "qos_delay_messages_sent_total": _figure(1, "sent"),
    "qos_delay_latency_mean_seconds": _figure(1e6, "L_us", "avg"),
    "qos_delay_latency_ratio": _figure(1, "L_over_delay"),
    "qos_delay_end_to_end_seconds": _figure(1000, "end_to_end_ms", "total"),
    "qos_delay_packets_per_segment": _figure(1, "segments", "publisher", "mqtt_packets_per_segment", "mean"),
}
