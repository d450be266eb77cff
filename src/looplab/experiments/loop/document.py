"""What a run of the loop stores: the cells of run.json, the lines of samples.csv and transport.csv."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from looplab.experiments.loop import LoopCell, ledger
from looplab.experiments.loop.parameters import Parameters
from looplab.run.accounting import Columns, response, response_ns, tally, total_ns
from looplab.run.samples import ABSENT, NOT_SENT

# The rows' own columns: R as the bridge measured it, the same at its socket, the wait for earlier requests; O's parts.
COLUMNS = ("robot_ns", "wire_robot_ns", "wait_ns", *ledger.COLUMNS)
TRANSPORT_HEADER = ",".join(
    (
        "sequence,transport_total_us,transport_robot_us,transport_overhead_us,robot_wait_us",
        *(f"{name}_us" for name in ledger.NAMES),
    )
)
_WIRE = ("wire_sent_ns", "wire_received_ns", "wire_robot_ns")


def in_published_order(parameters: Parameters, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells of run.json, which are given in the order in which they were measured, in the published one."""
    places = {key: at for at, key in enumerate(parameters.published_cells)}
    return sorted(cells, key=lambda entry: places[entry["interval_ms"], entry["qos"]])


def of_rows(cell: LoopCell, columns: Columns, rows: range) -> dict[str, Any]:
    """Return what run.json holds of a cell by its rows, beside counts and latencies."""
    sent, measured = tally(columns, rows)
    return {
        "ledger_us": ledger.summary(columns, measured),
        "waited": waited(columns, measured),
        "response_us": response(columns, sent),
        "beyond_interval": beyond(columns, sent, round(cell.interval_ms * 1e6)),
    }


def beyond(columns: Columns, sent: Sequence[int], interval_ns: int) -> float | None:
    """Return the share of messages without an answer within one interval of due, None if none was sent."""
    within = sum(time_ns <= interval_ns for time_ns in response_ns(columns, sent))
    return round(1 - within / len(sent), 6) if sent else None


def overhead(cell: LoopCell, columns: Columns, rows: range) -> dict[str, Any]:
    """Return of one cell only how many messages were sent, and the mean of O: cheap enough between cells."""
    sent, measured = tally(columns, rows)
    total = sum(total_ns(columns, measured)) - sum(columns["robot_ns"][row] for row in measured)
    return {
        **cell.key_document,
        "sent": len(sent),
        "O_us": {"n": len(measured), "avg": total / len(measured) / 1000 if measured else None},
    }


def waited(columns: Columns, rows: Iterable[int]) -> int:
    """Return how many of these requests queued at the robot."""
    return sum(columns["wait_ns"][row] > 0 for row in rows)


def passed(columns: Columns, rows: Iterable[int]) -> int:
    """Return how many messages these rows published, requests and answers."""
    state, received = columns["state"], columns["received_ns"]
    return sum((state[row] != NOT_SENT) + (received[row] != ABSENT) for row in rows)


def robot_free_us(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return R without queueing of a cell of run.json; {} if nothing queued."""
    service = cell.get("service_R_us") or {}
    return dict(service) if service.get("n") and cell.get("waited") else {}


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
