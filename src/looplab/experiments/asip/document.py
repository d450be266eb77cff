"""What run.json holds of a cell beside its samples, and the CSV files of a run."""

from collections.abc import Sequence
from typing import Any

from looplab.experiments.asip import AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.waves import search_result
from looplab.run.accounting import summarise
from looplab.run.cells import CellResult
from looplab.run.document import More, microseconds, samples_file
from looplab.run.record import File

# The sample store has these columns beside the common ones: one of a test, three of a step.
COLUMNS = ("edge_ns", "frequency_uhz", "edges_in", "edges_out")


def planned(p: AsipParameters, cell: AsipCell) -> CellResult[AsipCell]:
    """Return a cell of which nothing is known yet."""
    more = {"factors": {"cpus": p.client_cpus}, "reports_per_s": None, "runtime": "", "board_lag_us": None}
    return CellResult(cell, {**more, **(search_result([]) if p.throughput else copies([]))})


def copies(delays_ns: Sequence[int | None]) -> dict[str, Any]:
    """Return what the oscilloscope adds to a cell: waves that were not copied, and how long the copies took."""
    copied = [delay for delay in delays_ns if delay is not None]
    return {"edge_lost": len(delays_ns) - len(copied), "edge_latency_us": summarise(copied)}


def files(parameters: AsipParameters) -> list[File]:
    """Return the CSV files of a run."""
    if parameters.throughput:
        steps: dict[str, More] = {
            "frequency_hz": lambda columns, row: f"{columns['frequency_uhz'][row] / 1e6:.6f}",
            "edges_in": lambda columns, row: columns["edges_in"][row],
            "edges_out": lambda columns, row: columns["edges_out"][row],
        }
        return [samples_file(ThroughputCell, parameters, steps)]
    edge_us: dict[str, More] = {"edge_latency_us": lambda columns, row: microseconds(columns["edge_ns"][row])}
    return [samples_file(LatencyCell, parameters, edge_us)]
