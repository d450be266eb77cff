"""A finished run of the experiment qos-delay as text for Prometheus: figures of each cell, no distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from looplab.exporter_runs import started, treatment_text
from looplab.exposition import line

EXPERIMENT = "qos-delay"
STATISTICS = ("min", "avg", "p50", "p95", "p99", "max")
_OUTCOMES = {"answered": "answered", "late": "late", "lost": "lost"}


def cell_labels(fidelity: str, cell: Mapping[str, Any]) -> dict[str, str]:
    """What a cell is told apart by."""
    return {
        "fidelity": fidelity,
        "delay_pb_ms": f"{cell['delay_pb_ms']:g}",
        "delay_bs_ms": f"{cell['delay_bs_ms']:g}",
        "qos": str(cell["qos"]),
    }


def delay_texts(run: Mapping[str, Any]) -> dict[str, str]:
    """Sample lines by family of a run.json. Raises KeyError, TypeError or ValueError where it is none."""
    fidelity = str(run["fidelity"])
    labels = {"scenario": str(run["scenario"]), "fidelity": fidelity}
    cells = [(cell_labels(fidelity, cell), cell) for cell in run["cells"] if cell.get("valid", True)]
    texts = {
        "qos_delay_latency_seconds": "".join(
            line("qos_delay_latency_seconds", {**own, "stat": stat}, cell["L_us"][stat] / 1e6)
            for own, cell in cells
            for stat in STATISTICS
            if cell["L_us"].get(stat) is not None
        ),
        "qos_delay_messages_total": "".join(
            line("qos_delay_messages_total", {**own, "outcome": outcome}, cell[key])
            for own, cell in cells
            for outcome, key in _OUTCOMES.items()
        ),
        "qos_delay_end_to_end_seconds": _each(cells, "qos_delay_end_to_end_seconds", _end_to_end_s),
        "qos_delay_latency_ratio": _each(cells, "qos_delay_latency_ratio", lambda cell: cell.get("L_over_delay")),
        "qos_delay_packets_per_segment": _each(cells, "qos_delay_packets_per_segment", _packets_per_segment),
        "loop_run_active": line("loop_run_active", labels, 0),
        "loop_run_valid": line("loop_run_valid", labels, int(bool(run["valid"]))),
        "loop_treatment_verified": treatment_text(labels["scenario"], fidelity, run["treatments"]),
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


def _end_to_end_s(cell: Mapping[str, Any]) -> float | None:
    made = (cell.get("end_to_end_ms") or {}).get("total")
    return None if made is None else made / 1000


def _packets_per_segment(cell: Mapping[str, Any]) -> float | None:
    publisher = (cell.get("segments") or {}).get("publisher") or {}
    mean = (publisher.get("mqtt_packets_per_segment") or {}).get("mean")
    return None if mean is None else float(mean)
