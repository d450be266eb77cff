"""From a run's samples and edges to its files and the cells of run.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.experiments.asip import AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters
from looplab.run.accounting import Columns, summarise
from looplab.run.document import More, cell_document, samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT

EDGES_HEADER = "language,transport,placement,step,pin,level,cycle"
# Columns of the sample store beside the common ones: of a test, and of a step.
COLUMNS = ("edge_in_cycle", "edge_out_cycle", "frequency_uhz", "edges_in", "edges_out")
CYCLE_NS = 62.5


@dataclass(frozen=True)
class Step:
    """One frequency of a bisection: edges of pin 2 and of pin 13, and the latencies of those that were copied."""

    frequency_hz: float
    seconds: float
    edges_in: int
    edges_out: int
    tracked: bool
    edge_latency_ns: Sequence[int] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the entry of `steps` in run.json."""
        return {
            "frequency_hz": round(self.frequency_hz, 6),
            "seconds": self.seconds,
            "edges_in": self.edges_in,
            "edges_out": self.edges_out,
            "tracked": self.tracked,
            "edge_latency_us": summarise(self.edge_latency_ns),
        }


@dataclass
class Measured:
    """One cell as far as it was measured.

    `edges` are (step, pin, level, cycle) in the order of cycles, step -1 outside a bisection. `wire_bytes` are those of
    one test, counted at the board: `to_board` and `to_client`. `board` is what the simulated board has counted.
    """

    cell: AsipCell
    runtime: str = ""
    warmup: Mapping[str, Any] | None = None
    wire_bytes: Mapping[str, float] | None = None
    byte_us: float = 170.0
    wire_hz: float | None = None
    board: BoardCounts | None = None
    edges: Sequence[tuple[int, int, int, int]] = ()
    steps: Sequence[Step] = ()
    faults: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The first columns of this cell's lines in a CSV file."""
        return ",".join(self.cell.key)

    @property
    def tracked_hz(self) -> float | None:
        """The highest frequency that was tracked."""
        return max((step.frequency_hz for step in self.steps if step.tracked), default=None)

    @property
    def untracked_hz(self) -> float | None:
        """The lowest frequency that was not tracked."""
        return min((step.frequency_hz for step in self.steps if not step.tracked), default=None)


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
    tests: dict[str, More] = {"edge_latency_us": _edge_us}
    return [samples_file(LatencyCell, parameters, tests), edges]


def edge_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of edges.csv: what the oscilloscope saw, cell by cell."""
    for one in measured:
        for step, pin, level, cycle in one.edges:
            yield f"{one.key},{step},{pin},{level},{cycle}"


def measured_cell(parameters: AsipParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    own = _steps(measured) if parameters.throughput else _latencies(parameters, columns, rows, measured)
    more = {
        "board": parameters.board,
        "qos": parameters.qos,
        "factors": {
            "tcp_nodelay": parameters.tcp_nodelay,
            "adapter": parameters.adapter,
            "jit": parameters.jit,
            "cpus": parameters.client_cpus,
        },
        **own,
        "runtime": measured.runtime,
        "board_lag_us": None if measured.board is None else measured.board.lag_us,
        "valid": not measured.faults,
        "invalid_because": measured.faults,
    }
    return cell_document(measured.cell, columns, rows, more)


def faults(measured: Sequence[Measured]) -> list[str]:
    """Return why cells are INVALID."""
    return [f"{one.cell}: {why}" for one in measured for why in one.faults]


def _edge_ns(columns: Columns, row: int) -> int | None:
    """Return the time from the edge of pin 2 to that of pin 13, None if one is missing."""
    first, last = columns["edge_in_cycle"][row], columns["edge_out_cycle"][row]
    return None if ABSENT in (first, last) else round((last - first) * CYCLE_NS)


def _edge_us(columns: Columns, row: int) -> str:
    edge_ns = _edge_ns(columns, row)
    return "" if edge_ns is None else f"{edge_ns / 1e3:.3f}"


def _latencies(parameters: AsipParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """Return what a cell of asip holds beside its spec's counts and the client's latency."""
    sent = [row for row in rows if columns["state"][row] != NOT_SENT]
    edges = [edge for row in sent if (edge := _edge_ns(columns, row)) is not None]
    seen = sum(columns["edge_in_cycle"][row] != ABSENT for row in sent)
    wire = measured.wire_bytes
    return {
        "interval_ms": parameters.interval_ms,
        "edge_tests": seen,
        "edge_answered": len(edges),
        "edge_lost": seen - len(edges),
        "edge_latency_us": summarise(edges),
        "wire_us": None if wire is None else round(sum(wire.values()) * measured.byte_us, 3),
        "wire_bytes": None if wire is None else dict(wire),
        "warmup": None if measured.warmup is None else dict(measured.warmup),
    }


def _steps(measured: Measured) -> dict[str, Any]:
    """Return what a cell of asip-throughput holds beside the counts."""
    return {
        "tracked_hz": measured.tracked_hz,
        "untracked_hz": measured.untracked_hz,
        "wire_hz": measured.wire_hz,
        "steps": [step.as_json() for step in measured.steps],
    }
