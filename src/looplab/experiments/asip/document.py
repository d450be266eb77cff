"""From a run's samples and edges to its files and the cells of run.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.parameters import AsipParameters, Cell
from looplab.run.accounting import OUTCOMES, Columns, lateness, summarise, tally, total_ns
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT

KEY_HEADER = "language,transport,placement"
SAMPLES_HEADER = (
    f"{KEY_HEADER},repetition,test,due_ns,sent_ns,received_ns,latency_us,edge_latency_us,outcome,edge_outcome"
)
STEPS_HEADER = f"{KEY_HEADER},repetition,step,frequency_hz,seconds,edges_in,edges_out,outcome"
EDGES_HEADER = f"{KEY_HEADER},step,pin,level,cycle"
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


class ReadSizes(NamedTuple):
    """The most bytes that one read of a part asks for, and the most that one returned."""

    asked: int
    returned: int


@dataclass
class Measured:
    """One cell as far as it was measured.

    `edges` are (step, pin, level, cycle) in the order of cycles, step -1 outside a bisection. `wire_bytes` are those of
    one test, counted at the board: `to_board` and `to_client`. `reads` are the sizes of
    reads, by part. `board` is what the simulated board has counted.
    """

    cell: Cell
    runtime: str = ""
    warmup: Mapping[str, Any] | None = None
    wire_bytes: Mapping[str, float] | None = None
    byte_us: float = 170.0
    wire_hz: float | None = None
    board: BoardCounts | None = None
    reads: dict[str, ReadSizes] = field(default_factory=dict)
    edges: Sequence[tuple[int, int, int, int]] = ()
    steps: Sequence[Step] = ()
    faults: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The first columns of this cell's lines in a CSV file."""
        return f"{self.cell.language},{self.cell.transport},{self.cell.placement}"

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
        return [File("samples.csv", STEPS_HEADER, partial(step_lines, parameters)), edges]
    return [File("samples.csv", SAMPLES_HEADER, partial(sample_lines, parameters)), edges]


def sample_lines(parameters: AsipParameters, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of samples.csv of asip for `rows`; none for tests that were never sent."""
    state, due, sent, received = (columns[name] for name in ("state", "due_ns", "sent_ns", "received_ns"))
    for row in rows:
        if state[row] != NOT_SENT:
            answer = "," if received[row] == ABSENT else f"{received[row]},{(received[row] - sent[row]) / 1e3:.3f}"
            edge_ns = _edge_ns(columns, row)
            edge, fate = ("", "lost") if edge_ns is None else (f"{edge_ns / 1e3:.3f}", "answered")
            yield (f"{_key_of(parameters, row)},{due[row]},{sent[row]},{answer},{edge},{OUTCOMES[state[row]]},{fate}")


def step_lines(parameters: AsipParameters, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of samples.csv of asip-throughput for `rows`; none for steps that were never made."""
    state = columns["state"]
    for row in rows:
        if state[row] != NOT_SENT:
            figures = f"{columns['frequency_uhz'][row] / 1e6:.6f},{parameters.seconds:g}"
            edges = f"{columns['edges_in'][row]},{columns['edges_out'][row]}"
            yield f"{_key_of(parameters, row)},{figures},{edges},{OUTCOMES[state[row]]}"


def edge_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of edges.csv: what the oscilloscope saw, cell by cell."""
    for one in measured:
        for step, pin, level, cycle in one.edges:
            yield f"{one.key},{step},{pin},{level},{cycle}"


def cell_document(parameters: AsipParameters, columns: Columns, rows: range, measured: Measured) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    sent, answered, fates = tally(columns, rows)
    own = _steps(measured) if parameters.throughput else _latencies(parameters, columns, sent, answered, measured)
    return {
        "language": measured.cell.language,
        "transport": measured.cell.transport,
        "placement": measured.cell.placement,
        "protocol": parameters.protocol,
        "board": parameters.board,
        "qos": parameters.qos,
        "factors": {
            "tcp_nodelay": parameters.tcp_nodelay,
            "read": parameters.read,
            "frames": parameters.frames,
            "adapter": parameters.adapter,
            "jit": parameters.jit,
            "cpus": parameters.client_cpus,
        },
        "tests": len(sent),
        **fates,
        **own,
        "runtime": measured.runtime,
        "board_lag_us": None if measured.board is None else measured.board.lag_us,
        "valid": not measured.faults,
        "invalid_because": measured.faults,
    }


def faults(measured: Sequence[Measured]) -> list[str]:
    """Return why cells are INVALID."""
    return [f"{one.cell}: {why}" for one in measured for why in one.faults]


def _key_of(parameters: AsipParameters, row: int) -> str:
    """Return how the line of a row begins: its cell, repetition and number in the cell."""
    index, number = divmod(row, parameters.messages * parameters.repetitions)
    cell, repetition = parameters.cells[index], number // parameters.messages
    return f"{cell.language},{cell.transport},{cell.placement},{repetition},{number}"


def _edge_ns(columns: Columns, row: int) -> int | None:
    """Return the time from the edge of pin 2 to that of pin 13, None if one is missing."""
    first, last = columns["edge_in_cycle"][row], columns["edge_out_cycle"][row]
    return None if ABSENT in (first, last) else round((last - first) * CYCLE_NS)


def _latencies(
    parameters: AsipParameters, columns: Columns, sent: Sequence[int], answered: Sequence[int], measured: Measured
) -> dict[str, Any]:
    """Return what a cell of asip holds beside the counts."""
    edges = [edge for row in sent if (edge := _edge_ns(columns, row)) is not None]
    seen = sum(columns["edge_in_cycle"][row] != ABSENT for row in sent)
    wire = measured.wire_bytes
    return {
        "interval_ms": parameters.interval_ms,
        "latency_us": summarise(total_ns(columns, answered)),
        "edge_tests": seen,
        "edge_answered": len(edges),
        "edge_lost": seen - len(edges),
        "edge_latency_us": summarise(edges),
        "wire_us": None if wire is None else round(sum(wire.values()) * measured.byte_us, 3),
        "wire_bytes": None if wire is None else dict(wire),
        "send_lateness_us": lateness(columns, sent),
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
