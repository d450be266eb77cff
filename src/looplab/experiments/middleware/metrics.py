"""Runs of the middleware as text for Prometheus, the running one and stored ones."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from looplab.experiments.middleware.cells import placement
from looplab.experiments.middleware.histogram import Histogram
from looplab.metrics import cells as shared
from looplab.metrics.distributions import bounds_s
from looplab.metrics.text_format import labels_text, line
from looplab.metrics.view import CellsView

FAMILY = "middleware"
FAMILIES = {
    "middleware_messages_total": ("counter", "Requests of a cell by outcome."),
    "middleware_messages_sent_total": ("counter", "Requests of a cell that were due."),
    "middleware_failures_total": ("counter", "Failed requests of a cell by cause."),
    "middleware_latency_seconds": ("histogram", "Response from due: the cell that is measured now."),
    "middleware_latency_quantile_seconds": ("gauge", "Exact quantile of a cell's times, to three digits."),
    "middleware_send_lateness_quantile_seconds": ("gauge", "Exact quantile of a cell's send lateness."),
    "middleware_processed_per_second": ("gauge", "Requests that succeeded in each second of the load."),
    "middleware_failed_ratio": ("gauge", "Share of the ended requests that failed."),
    "middleware_cpu_seconds_per_request": ("gauge", "Processor time of the middleware for a request that succeeded."),
    "middleware_memory_bytes": ("gauge", "Memory of the middleware at the start and at the end of a repetition."),
    "middleware_service_cpu_seconds": ("gauge", "Processor time of a service in a cell, mean of the repetitions."),
    "middleware_service_memory_bytes": ("gauge", "Memory of a service at the end of a repetition, mean of them."),
    "middleware_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
    "middleware_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
}
VIEW = CellsView(
    "placement",
    "placement",
    "answered within x of due,",
    {"response": "from due to answered"},
    unit="",
    outcomes={"succeeded": "done", "failed": "failed", "unfinished": "unfin."},
    second="devices",
    second_heading="devices",
)
# 0.1 ms to 10 s: an overloaded middleware answers late.
BOUNDS_S = bounds_s(-4, 1)
_METRICS = ("response", "sent_response", "server")


def load_labels(scenario: str, fidelity: str, cell: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a cell; `cores` are those of one node."""
    container, balancer, nodes, cores = (cell[name] for name in ("container", "balancer", "nodes", "cores"))
    return {
        "scenario": scenario,
        "fidelity": fidelity,
        "placement": placement(container, balancer, nodes, cores),
        "nodes": str(nodes),
        "cores": str(cores),
        "where": "balancer" if balancer else "container" if container else "bare",
        "devices": str(cell["devices"]),
    }


def live_texts(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of the running run's cell from its live state; {} before the first request."""
    held = state.get("cells") or []
    if not held:
        return {}
    texts, labels = _texts(state["run_id"], state["parameters"], held)
    texts["middleware_cell_current"] = "".join(
        line("middleware_cell_current", one, int(one is labels[-1])) for one in labels
    )
    if found := state.get("response"):
        family = "middleware_latency_seconds"
        texts[family] = _histogram_text(family, {**labels[-1], "metric": "response"}, Histogram.from_json(found))
    return texts


def stored_texts(folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the sample lines of a run.json. Raises KeyError, TypeError or ValueError if it is none."""
    return _texts(folder.name, run, [cell for cell in run["cells"] if cell.get("valid", True)])[0]


def _texts(
    run_id: str, run: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the sample lines of these cells, and their labels; `run` names scenario and fidelity."""
    found = [(load_labels(str(run["scenario"]), str(run["fidelity"]), cell), cell) for cell in held]
    return shared.stored_texts(FAMILY, run_id, found, _FIGURES), [one for one, _cell in found]


def _one(figure: Callable[[shared.StoredCell], float | None]) -> Callable[[shared.StoredCell], shared.Values]:
    return lambda cell: [({}, value)] if (value := figure(cell)) is not None else []


def _processed(cell: Mapping[str, Any]) -> float | None:
    seconds = sum(one["seconds"] for one in cell["by_repetition"])
    return float(cell.get("processed", cell["succeeded"]) / seconds) if seconds else None


def _failed_ratio(cell: Mapping[str, Any]) -> float | None:
    ended = cell["succeeded"] + cell["failed"]
    return float(cell["failed"] / ended) if ended else None


def _by_service(name: str) -> Callable[[shared.StoredCell], shared.Values]:
    """Return a function that gives the mean of a figure by service over the repetitions."""

    def values(cell: shared.StoredCell) -> shared.Values:
        held = [one.get(name) or {} for one in cell["by_repetition"]]
        services = dict.fromkeys(service for one in held for service in one)
        return [({"service": service}, sum(one.get(service, 0) for one in held) / len(held)) for service in services]

    return values


_FIGURES: Mapping[str, Callable[[shared.StoredCell], shared.Values]] = {
    "messages_total": shared.counts("succeeded", "failed", "unfinished"),
    "messages_sent_total": shared.figure("requests"),
    "failures_total": lambda cell: [({"cause": k}, n) for k, n in cell.get("failed_by", {}).items()],
    "latency_quantile_seconds": shared.together(*(shared.quantiles(f"{name}_us", metric=name) for name in _METRICS)),
    "send_lateness_quantile_seconds": shared.quantiles("send_lateness_us"),
    "processed_per_second": _one(_processed),
    "failed_ratio": _one(_failed_ratio),
    "cpu_seconds_per_request": shared.figure("cpu_s_per_request"),
    "memory_bytes": shared.together(
        *(shared.figure(f"memory_bytes_at_{when}", when=when) for when in ("start", "end"))
    ),
    "service_cpu_seconds": _by_service("cpu_s"),
    "service_memory_bytes": _by_service("memory_end_bytes"),
}


def _histogram_text(family: str, labels: Mapping[str, str], held: Histogram) -> str:
    """Return buckets, sum and count as sample lines; a bucket of the histogram counts from its upper end on."""
    uppers = sorted(held.counts)
    seen = [0, *accumulate(held.counts[upper] for upper in uppers)]
    counts = [*(seen[bisect_right(uppers, round(bound * 1e9))] for bound in BOUNDS_S), held.count]
    names = [*map(repr, BOUNDS_S), "+Inf"]
    base = labels_text(labels)
    text = "".join(
        f'{family}_bucket{{{base},le="{name}"}} {count}\n' for name, count in zip(names, counts, strict=True)
    )
    return f"{text}{family}_sum{{{base}}} {held.sum_ns / 1e9!r}\n{family}_count{{{base}}} {held.count}\n"
