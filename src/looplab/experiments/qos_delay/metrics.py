"""Runs of qos-delay as text for Prometheus, the running one and stored ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.experiments.qos_delay import NAME
from looplab.metrics import cells as shared
from looplab.metrics.distributions import Cell, Distribution, bounds_s
from looplab.metrics.text_format import line
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
# 1 ms to 10 s: at QoS 2 a message may take seven times the longest delay.
BOUNDS_S = bounds_s(-3, 1)


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


def cells(parameters: Mapping[str, Any]) -> list[DelayCell]:
    """Return the cells of a run in the order in which they are measured."""
    fidelity = str(parameters["fidelity"])
    pairs = [(float(pb), float(bs)) for pb, bs in parameters["pairs_ms"]]
    return [DelayCell(delay_labels(fidelity, *pair, int(qos))) for qos in parameters["qos"] for pair in pairs]


def cell_texts(run_id: str, found: Sequence[Cell]) -> dict[str, str]:
    """Return the sample lines of the running run."""
    begun = [cell for cell in found if cell.sent]
    name = "qos_delay_latency_mean_seconds"
    means = [(cell.labels, cell.latencies["L"]) for cell in begun]
    return {
        **shared.running_texts(FAMILY, run_id, begun),
        name: "".join(line(name, labels, mean.sum_ns / mean.count / 1e9) for labels, mean in means if mean.count),
    }


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    fidelity = str(run["fidelity"])
    found = [
        (delay_labels(fidelity, float(cell["delay_pb_ms"]), float(cell["delay_bs_ms"]), int(cell["qos"])), cell)
        for cell in run["cells"]
        if cell.get("valid", True)
    ]
    return shared.stored_texts(FAMILY, folder.name, found, _FIGURES)


_FIGURES = {
    "messages_total": shared.counts("answered", "late", "lost"),
    "messages_sent_total": shared.figure("sent"),
    "latency_quantile_seconds": shared.quantiles("L_us", metric="L"),
    "latency_mean_seconds": shared.figure("L_us", "avg", divisor=1e6),
    "latency_ratio": shared.figure("L_over_delay"),
    "end_to_end_seconds": shared.figure("end_to_end_ms", "total", divisor=1000),
    "packets_per_segment": shared.figure("segments", "publisher", "mqtt_packets_per_segment", "mean"),
}
