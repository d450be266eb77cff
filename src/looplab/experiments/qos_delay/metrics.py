"""Runs of the experiment qos-delay as text for Prometheus, the running one and finished ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from looplab.experiments.qos_delay import NAME as EXPERIMENT
from looplab.metrics.distributions import Cell, Distribution, bounds_s, joined
from looplab.metrics.runs import common_texts, current_text, started, treatment_text
from looplab.metrics.text_format import line

# 1 ms to 10 s: at QoS 2 a message may take seven times the longest delay.
BOUNDS_S = bounds_s(-3, 1)
_QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
_OUTCOMES = ("answered", "late", "lost")


def delay_labels(fidelity: str, delay_pb_ms: float, delay_bs_ms: float, qos: int) -> dict[str, str]:
    """What a cell is told apart by; `links` says whether both are alike, `end_to_end_ms` is as wanted."""
    return {
        "scenario": EXPERIMENT,
        "fidelity": fidelity,
        "pair": f"{delay_pb_ms:g}-{delay_bs_ms:g}",
        "links": "symmetrical" if delay_pb_ms == delay_bs_ms else "asymmetrical",
        "end_to_end_ms": f"{delay_pb_ms + delay_bs_ms:g}",
        "qos": str(qos),
    }


class DelayCell(Cell):
    """One pair of link delays at one QoS of the running run."""

    family = "qos_delay"

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__(labels)
        self.latencies = {"L": Distribution(BOUNDS_S)}

    def add_latency(self, total_ns: int, robot_ns: int) -> None:
        """One message received, in time or late; no robot takes part."""
        self.latencies["L"].add(total_ns)


def delay_run_texts(
    run_id: str, parameters: Mapping[str, Any], cells: Sequence[Cell], *, active: bool
) -> dict[str, str]:
    """Sample lines of the running run; a histogram of the cell that is measured alone, for there are many cells."""
    begun = [cell for cell in cells if cell.sent]
    parts = [cell.texts() for cell in begun]
    means = [(cell.labels, cell.latencies["L"]) for cell in begun]
    texts = {
        **common_texts(run_id, parameters, cells, active=active),
        **joined([{name: text for name, text in part.items() if not _is_histogram(name)} for part in parts]),
        "qos_delay_latency_mean_seconds": "".join(
            line("qos_delay_latency_mean_seconds", labels, values.sum_ns / values.count / 1e9)
            for labels, values in means
            if values.count
        ),
        "qos_delay_cell_current": current_text("qos_delay", begun),
    }
    if parts:
        texts["qos_delay_latency_seconds"] = parts[-1].get("qos_delay_latency_seconds", "")
    return texts


def _is_histogram(family: str) -> bool:
    return family in ("qos_delay_latency_seconds", "qos_delay_send_lateness_seconds")


def delay_texts(run: Mapping[str, Any]) -> dict[str, str]:
    """Sample lines of a run.json. Raises KeyError, TypeError or ValueError where it is none."""
    fidelity = str(run["fidelity"])
    parameters = run["parameters"]
    labels = {"scenario": EXPERIMENT, "fidelity": fidelity}
    cells = [
        (delay_labels(fidelity, float(cell["delay_pb_ms"]), float(cell["delay_bs_ms"]), int(cell["qos"])), cell)
        for cell in run["cells"]
        if cell.get("valid", True)
    ]
    texts = {
        "qos_delay_latency_quantile_seconds": "".join(
            line("qos_delay_latency_quantile_seconds", {**own, "metric": "L", "q": q}, cell["L_us"][stat] / 1e6)
            for own, cell in cells
            for stat, q in _QUANTILES.items()
            if cell["L_us"].get(stat) is not None
        ),
        "qos_delay_messages_total": "".join(
            line("qos_delay_messages_total", {**own, "outcome": outcome}, cell[outcome])
            for own, cell in cells
            for outcome in _OUTCOMES
        ),
        "qos_delay_messages_sent_total": _each(cells, "qos_delay_messages_sent_total", lambda cell: cell["sent"]),
        "qos_delay_latency_mean_seconds": _each(cells, "qos_delay_latency_mean_seconds", _mean_s),
        "qos_delay_latency_ratio": _each(cells, "qos_delay_latency_ratio", lambda cell: cell.get("L_over_delay")),
        "qos_delay_end_to_end_seconds": _each(cells, "qos_delay_end_to_end_seconds", _end_to_end_s),
        "qos_delay_packets_per_segment": _each(cells, "qos_delay_packets_per_segment", _packets_per_segment),
        "loop_run_active": line("loop_run_active", labels, 0),
        "loop_run_info": line("loop_run_info", {**labels, "run_id": str(run["run_id"])}, 1),
        "loop_run_messages_planned": line(
            "loop_run_messages_planned", labels, len(run["cells"]) * int(parameters["messages"])
        ),
        "loop_run_valid": line("loop_run_valid", labels, int(bool(run["valid"]))),
        "loop_treatment_verified": treatment_text(EXPERIMENT, fidelity, run["treatments"]),
    }
    start = started(str(run["run_id"]))
    if start is not None:
        texts["loop_run_started_timestamp_seconds"] = line("loop_run_started_timestamp_seconds", labels, start)
    return texts


def _each(
    cells: list[tuple[dict[str, str], Mapping[str, Any]]],
    family: str,
    figure: Callable[[Mapping[str, Any]], float | None],
) -> str:
    found = [(labels, figure(cell)) for labels, cell in cells]
    return "".join(line(family, labels, value) for labels, value in found if value is not None)


def _mean_s(cell: Mapping[str, Any]) -> float | None:
    mean = cell["L_us"].get("avg")
    return None if mean is None else mean / 1e6


def _end_to_end_s(cell: Mapping[str, Any]) -> float | None:
    made = (cell.get("end_to_end_ms") or {}).get("total")
    return None if made is None else made / 1000


def _packets_per_segment(cell: Mapping[str, Any]) -> float | None:
    publisher = (cell.get("segments") or {}).get("publisher") or {}
    mean = (publisher.get("mqtt_packets_per_segment") or {}).get("mean")
    return None if mean is None else float(mean)
