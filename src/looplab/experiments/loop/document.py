"""What a run of the loop stores: the cells of run.json, the lines of samples.csv and transport.csv."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from looplab.experiments.loop import EXPERIMENT, ledger, printed, transport_ns
from looplab.run.accounting import Columns, response, tally
from looplab.run.document import microseconds, samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT
from looplab.spec.parameters import RunParameters

# Columns of the loop's own: R by the bridge, R at its socket, the wait for earlier requests, the parts of O, and
# the stamps of printed clients.
COLUMNS = ("robot_ns", "wire_robot_ns", "wait_ns", *ledger.COLUMNS, *printed.COLUMNS)
_TRANSPORT = ("transport_total", "transport_robot", "transport_overhead", "robot_wait", *ledger.NAMES)
TRANSPORT_HEADER = ",".join(("sequence", *(f"{name}_us" for name in _TRANSPORT)))


def files(parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run."""
    samples = samples_file(EXPERIMENT.table(parameters.scenario), parameters)
    return [samples, File("transport.csv", TRANSPORT_HEADER, transport_lines)]


def of_rows(columns: Columns, rows: range) -> dict[str, Any]:
    """Return what run.json holds of a cell by its rows, beside counts and latencies."""
    sent, measured = tally(columns, rows)
    return {
        "ledger_us": ledger.summary(columns, measured),
        "negative_remainders": ledger.negative(columns, measured),
        "waited": sum(columns["wait_ns"][row] > 0 for row in measured),
        "response_us": response(columns, sent),
    }


def passed(columns: Columns, rows: Iterable[int], *, requests: bool, answers: bool) -> int:
    """Return how many messages these rows published, of those that count: requests, answers."""
    state, received = columns["state"], columns["received_ns"]
    return sum(requests * (state[row] != NOT_SENT) + answers * (received[row] != ABSENT) for row in rows)


def transport_lines(columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of transport.csv; a field is empty where unknown.

    It has the sequence, three latencies where bytes enter and leave sockets, how long the request queued at the robot,
    and the ledger's parts, whose sum is O of samples.csv.
    """
    for row in rows:
        overhead, robot = transport_ns(columns, row), columns["wire_robot_ns"][row]
        if overhead != ABSENT:
            values = (overhead + robot, robot, overhead, columns["wait_ns"][row], *ledger.of_row(columns, row))
            yield f"{row},{','.join(map(microseconds, values))}"
