"""From raw samples to cells: every message is counted exactly once, no latency is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from looplab.experiments.loop.parameters import Parameters
from looplab.run.samples import ABSENT, ANSWERED, LATE, NOT_SENT, ROBOT_ERROR, WAITING

OUTCOMES = {WAITING: "lost", ANSWERED: "answered", LATE: "late", ROBOT_ERROR: "robot_error"}
WIRE_COLUMNS = ("wire_sent_ns", "wire_received_ns", "wire_robot_ns")
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


class Columns(Protocol):
    """Columns of looplab.run.samples by name: a SampleStore, or a mapping of sequences."""

    def __getitem__(self, name: str, /) -> Any: ...


def quantile(ascending: Sequence[int], share: float) -> float:
    """The `share` quantile of sorted values, interpolated linearly between neighbours (Hyndman and Fan's
    type 7, numpy's default). Raises ValueError where there is none."""
    if not ascending:
        raise ValueError("no values")
    position = share * (len(ascending) - 1)
    low = int(position)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (position - low) * (ascending[high] - ascending[low])


def summarise(values_ns: Sequence[int]) -> dict[str, float | int | None]:
    """min, max, avg and percentiles in microseconds (three decimals) of durations in ns; null where none."""
    if not values_ns:
        return {"n": 0, "min": None, "max": None, "avg": None, **dict.fromkeys(QUANTILES)}
    ascending = sorted(values_ns)
    result: dict[str, float | int | None] = {
        "n": len(ascending),
        "min": _us(ascending[0]),
        "max": _us(ascending[-1]),
        "avg": _us(sum(ascending) / len(ascending)),
    }
    result.update({name: _us(quantile(ascending, share)) for name, share in QUANTILES.items()})
    return result


def tally(columns: Columns, rows: range) -> tuple[list[int], list[int], dict[str, int]]:
    """(rows that were sent, those of them with a latency, how many had each fate as a cell of run.json names it)."""
    state = columns["state"]
    sent = [row for row in rows if state[row] != NOT_SENT]
    fates = dict.fromkeys(OUTCOMES.values(), 0)
    for row in sent:
        fates[OUTCOMES[state[row]]] += 1
    measured = [row for row in sent if state[row] in (ANSWERED, LATE)]
    counts = {name: fates[name] for name in ("answered", "late", "lost")}
    return sent, measured, {"sent": len(sent), **counts, "robot_errors": fates["robot_error"]}


def total_ns(columns: Columns, rows: Sequence[int]) -> list[int]:
    """From sending to receiving, of rows that have both."""
    return [columns["received_ns"][row] - columns["sent_ns"][row] for row in rows]


def service_ns(columns: Columns, rows: Iterable[int]) -> list[int]:
    """R without waiting for the robot to be done with earlier requests, in ns, of rows whose wait is known."""
    robot, wait = columns["robot_ns"], columns["wait_ns"]
    return [robot[row] - wait[row] for row in rows if ABSENT not in (robot[row], wait[row])]


def waited(columns: Columns, rows: Iterable[int]) -> int:
    """How many of these requests waited for the robot to be done with earlier ones."""
    return sum(columns["wait_ns"][row] > 0 for row in rows)


def robot_free_us(cell: Mapping[str, Any]) -> dict[str, Any]:
    """R from when the robot was free, of a cell of run.json; {} where no request waited for another, and in runs of
    before it was measured."""
    service = cell.get("service_R_us") or {}
    return dict(service) if service.get("n") and cell.get("waited") else {}


def lateness(columns: Columns, sent: Sequence[int]) -> dict[str, float | int | None]:
    """How much later than due messages left."""
    return summarise([columns["sent_ns"][row] - columns["due_ns"][row] for row in sent])


def cell(columns: Columns, rows: range, counts: Mapping[str, int]) -> dict[str, Any]:
    """One cell's counts and latencies; `counts` are those that belong to no single row."""
    sent, measured, fates = tally(columns, rows)
    total = total_ns(columns, measured)
    robot = [columns["robot_ns"][row] for row in measured]
    wire = list(_wire_overheads(columns, measured))
    return {
        **fates,
        **counts,
        "T_us": summarise(total),
        "R_us": summarise(robot),
        "O_us": summarise([t - r for t, r in zip(total, robot, strict=True)]),
        "transport_O_us": summarise(wire),
        "service_R_us": summarise(service_ns(columns, measured)),
        "waited": waited(columns, measured),
        "send_lateness_us": lateness(columns, sent),
    }


def cell_rows(parameters: Parameters) -> Iterator[tuple[float, int, range]]:
    """(interval_ms, qos, rows) of each cell."""
    size = parameters.messages * parameters.repetitions
    for index, (interval_ms, qos) in enumerate(parameters.cells):
        yield interval_ms, qos, range(index * size, (index + 1) * size)


def sample_lines(parameters: Parameters, columns: Columns, rows: range) -> Iterator[str]:
    """The lines of samples.csv for `rows`, without line ends; rows that were never sent have none."""
    size = parameters.messages * parameters.repetitions
    cells = parameters.cells
    for row in rows:
        if columns["state"][row] != NOT_SENT:
            interval_ms, qos = cells[row // size]
            yield sample_line(columns, row, interval_ms, qos, row % size // parameters.messages)


def sample_line(columns: Columns, row: int, interval_ms: float, qos: int, repetition: int) -> str:
    """One line of samples.csv, of a row that was sent."""
    due, sent, received = columns["due_ns"][row], columns["sent_ns"][row], columns["received_ns"][row]
    head = f"{interval_ms:g},{qos},{repetition},{row},{due},{sent}"
    outcome = OUTCOMES[columns["state"][row]]
    if received == ABSENT:
        return f"{head},,,,,{outcome}"
    total, robot = received - sent, columns["robot_ns"][row]
    if robot == ABSENT:
        return f"{head},{received},{total / 1e3:.3f},,,{outcome}"
    return f"{head},{received},{total / 1e3:.3f},{robot / 1e3:.3f},{(total - robot) / 1e3:.3f},{outcome}"


def transport_lines(columns: Columns, rows: range) -> Iterator[str]:
    """The lines of transport.csv: sequence, the three latencies where bytes enter and leave sockets, and how long the
    request waited for the robot (empty where the bridge did not say)."""
    for row in rows:
        sent, received, robot = (columns[name][row] for name in WIRE_COLUMNS)
        if ABSENT in (sent, received, robot):
            continue
        total, wait = received - sent, columns["wait_ns"][row]
        waited = "" if wait == ABSENT else f"{wait / 1e3:.3f}"
        yield f"{row},{total / 1e3:.3f},{robot / 1e3:.3f},{(total - robot) / 1e3:.3f},{waited}"


def _wire_overheads(columns: Columns, rows: Sequence[int]) -> Iterator[int]:
    sent, received, robot = (columns[name] for name in WIRE_COLUMNS)
    for row in rows:
        if ABSENT not in (sent[row], received[row], robot[row]):
            yield received[row] - sent[row] - robot[row]


def _us(nanoseconds: float) -> float:
    return round(nanoseconds / 1000, 3)
