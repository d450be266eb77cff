"""From a run's samples and edges to its files and the cells of run.json."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.asip import AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.board import CYCLE_NS
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.waves import Row
from looplab.run import cells
from looplab.run.accounting import Columns, summarise
from looplab.run.document import More, cell_document, samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT

EDGES_HEADER = ",".join([*(key.name for key in AsipCell.key_columns()), "step", "pin", "level", "cycle"])
# Columns of the sample store beside the common ones: of a test, and of a step.
COLUMNS = ("edge_in_cycle", "edge_out_cycle", "frequency_uhz", "edges_in", "edges_out")


@dataclass
class Measured(cells.Measured[AsipCell]):
    """A cell with the edges of the oscilloscope, in the order of cycles, and what the simulated board has counted."""

    board: BoardCounts | None = None
    edges: list[Row] = field(default_factory=list)


def files(parameters: AsipParameters, measured: Sequence[Measured]) -> list[File]:
    """Return the CSV files of a run; `measured` grows while the run is measured."""
    edges = File("edges.csv", EDGES_HEADER, lambda _columns, _rows: edge_lines(measured))
    if parameters.throughput:
        steps: dict[str, More] = {
            "frequency_hz": lambda columns, row: f"{columns['frequency_uhz'][row] / 1e6:.6f}",
            "seconds": lambda _columns, _row: f"{parameters.seconds:g}",
            "edges_in": lambda columns, row: columns["edges_in"][row],
            "edges_out": lambda columns, row: columns["edges_out"][row],
        }
        return [samples_file(ThroughputCell, parameters, steps), edges]
    return [samples_file(LatencyCell, parameters, {"edge_latency_us": _edge_us}), edges]


def edge_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of edges.csv: what the oscilloscope saw, cell by cell."""
    for one in measured:
        for step, pin, level, cycle in one.edges:
            yield f"{','.join(one.cell.key)},{step},{pin},{level},{cycle}"


def measured_cell(parameters: AsipParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    p, more = parameters, measured.more
    factors = {"tcp_nodelay": p.tcp_nodelay, "adapter": p.adapter, "reports": p.reports, "jit": p.jit}
    factors["cpus"] = p.client_cpus
    if p.throughput:
        by_fate: dict[bool, list[float]] = {True: [], False: []}
        for step in more.get("steps", []):
            by_fate[step["tracked"]].append(step["frequency_hz"])
        own: dict[str, Any] = {
            "tracked_hz": max(by_fate[True], default=None),
            "untracked_hz": min(by_fate[False], default=None),
            "steps": [],
        }
    else:
        own = {"interval_ms": p.interval_ms, "wire_bytes": None, "warmup": None}
        own |= _edge_figures(columns, rows)
    state = {
        "board_lag_us": None if measured.board is None else measured.board.lag_us,
        "valid": not measured.faults,
        "invalid_because": measured.faults,
    }
    settings = {"board": p.board, "qos": p.qos, "factors": factors, "link_ms": p.delay_ms(measured.cell)}
    settings |= {"reports": None, "runtime": ""}
    return cell_document(measured.cell, columns, rows, {**settings, **own, **more, **state})


def _edge_figures(columns: Columns, rows: range) -> dict[str, Any]:
    """Return what the oscilloscope adds to a cell: waves seen, copied and not, and how long the copies took."""
    seen = [row for row in rows if columns["state"][row] != NOT_SENT and columns["edge_in_cycle"][row] != ABSENT]
    delays = [delay for row in seen if (delay := _edge_ns(columns, row)) is not None]
    counts = {"edge_tests": len(seen), "edge_answered": len(delays), "edge_lost": len(seen) - len(delays)}
    return {**counts, "edge_latency_us": summarise(delays)}


def _edge_ns(columns: Columns, row: int) -> int | None:
    """Return the time from the edge of pin 2 to that of pin 13, None if one is missing."""
    first, last = columns["edge_in_cycle"][row], columns["edge_out_cycle"][row]
    return None if ABSENT in (first, last) else round((last - first) * CYCLE_NS)


def _edge_us(columns: Columns, row: int) -> str:
    edge_ns = _edge_ns(columns, row)
    return "" if edge_ns is None else f"{edge_ns / 1e3:.3f}"
