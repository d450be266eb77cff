"""What a run of the loop stores: the cells of run.json, the lines of samples.csv and transport.csv."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from looplab.experiments.loop import ledger
from looplab.experiments.loop.parameters import Parameters
from looplab.run.accounting import OUTCOMES, Columns, lateness, response, summarise, tally, total_ns
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT

# The rows' own columns: R as the bridge measured it, the same at its socket, the wait for earlier requests; O's parts.
COLUMNS = ("robot_ns", "wire_robot_ns", "wait_ns", *ledger.COLUMNS)
SAMPLES_HEADER = "interval_ms,qos,repetition,sequence,due_ns,sent_ns,received_ns,total_us,robot_us,overhead_us,outcome"
TRANSPORT_HEADER = ",".join(
    (
        "sequence,transport_total_us,transport_robot_us,transport_overhead_us,robot_wait_us",
        *(f"{name}_us" for name in ledger.NAMES),
    )
)
_WIRE = ("wire_sent_ns", "wire_received_ns", "wire_robot_ns")


def files(parameters: Parameters) -> list[File]:
    return [
        File("samples.csv", SAMPLES_HEADER, partial(sample_lines, parameters)),
        File("transport.csv", TRANSPORT_HEADER, transport_lines),
    ]


def cell_rows(parameters: Parameters) -> Iterator[tuple[float, int, range]]:
    """Yield (interval_ms, qos, rows) of each cell."""
    for index, (interval_ms, qos) in enumerate(parameters.cells):
        yield interval_ms, qos, parameters.rows(index)


def in_published_order(parameters: Parameters, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells of run.json, which are given in the order in which they were measured, in the published one."""
    places = {key: at for at, key in enumerate(parameters.published_cells)}
    return sorted(cells, key=lambda entry: places[entry["interval_ms"], entry["qos"]])


def cell(columns: Columns, rows: range, counts: Mapping[str, int], interval_ms: float) -> dict[str, Any]:
    """Return one cell's counts and latencies; `counts` holds the counts that belong to no row."""
    sent, measured, fates = tally(columns, rows)
    total = total_ns(columns, measured)
    robot = [columns["robot_ns"][row] for row in measured]
    return {
        **fates,
        **counts,
        "T_us": summarise(total),
        "R_us": summarise(robot),
        "O_us": summarise([t - r for t, r in zip(total, robot, strict=True)]),
        "transport_O_us": summarise([total - robot for _row, total, robot in _transport(columns, measured)]),
        "ledger_us": ledger.summary(columns, measured),
        "service_R_us": summarise(service_ns(columns, measured)),
        "waited": waited(columns, measured),
        "send_lateness_us": lateness(columns, sent),
        **response(columns, sent, round(interval_ms * 1e6)),
    }


def overhead(columns: Columns, rows: range, _counts: Mapping[str, int], _interval_ms: float) -> dict[str, Any]:
    """Return of one cell only how many messages were sent, and the mean of O: cheap enough between cells."""
    sent, measured, _fates = tally(columns, rows)
    total = sum(total_ns(columns, measured)) - sum(columns["robot_ns"][row] for row in measured)
    return {"sent": len(sent), "O_us": {"n": len(measured), "avg": total / len(measured) / 1000 if measured else None}}


def service_ns(columns: Columns, rows: Iterable[int]) -> list[int]:
    """Return R in ns of the rows that are known not to have queued at the robot."""
    robot, wait = columns["robot_ns"], columns["wait_ns"]
    return [robot[row] for row in rows if robot[row] != ABSENT and wait[row] == 0]


def waited(columns: Columns, rows: Iterable[int]) -> int:
    """Return how many of these requests queued at the robot."""
    return sum(columns["wait_ns"][row] > 0 for row in rows)


def passed(columns: Columns, rows: Iterable[int]) -> int:
    """Return how many messages these rows published, requests and answers."""
    state, received = columns["state"], columns["received_ns"]
    return sum((state[row] != NOT_SENT) + (received[row] != ABSENT) for row in rows)


def robot_free_us(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return R without queueing of a cell of run.json; {} if nothing queued or the run predates this field."""
    service = cell.get("service_R_us") or {}
    return dict(service) if service.get("n") and cell.get("waited") else {}


def sample_lines(parameters: Parameters, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of samples.csv for `rows`, without line ends; none for rows that were never sent."""
    size = parameters.messages * parameters.repetitions
    cells = parameters.cells
    state, robot_ns = columns["state"], columns["robot_ns"]
    due, sent, received = columns["due_ns"], columns["sent_ns"], columns["received_ns"]
    for row in rows:
        if state[row] == NOT_SENT:
            continue
        interval_ms, qos = cells[row // size]
        repetition, outcome = row % size // parameters.messages, OUTCOMES[state[row]]
        head = f"{interval_ms:g},{qos},{repetition},{row},{due[row]},{sent[row]}"
        if received[row] == ABSENT:
            yield f"{head},,,,,{outcome}"
            continue
        total, robot = received[row] - sent[row], robot_ns[row]
        parts = "," if robot == ABSENT else f"{robot / 1e3:.3f},{(total - robot) / 1e3:.3f}"
        yield f"{head},{received[row]},{total / 1e3:.3f},{parts},{outcome}"


def transport_lines(columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of transport.csv: sequence, the three latencies where bytes enter and leave sockets, how long the
    request queued at the robot, and the ledger's parts, whose sum is O of samples.csv. Empty where unknown."""
    for row, total, robot in _transport(columns, rows):
        values = (total, robot, total - robot, columns["wait_ns"][row], *ledger.of_row(columns, row))
        yield f"{row},{','.join('' if value == ABSENT else f'{value / 1e3:.3f}' for value in values)}"


def _transport(columns: Columns, rows: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (row, T, R) in ns where bytes enter and leave the sockets, of rows where all of it is known."""
    sent, received, robot = (columns[name] for name in _WIRE)
    for row in rows:
        if ABSENT not in (sent[row], received[row], robot[row]):
            yield row, received[row] - sent[row], robot[row]
