"""From a run's rows to run.json and samples.csv: the fate of every message, the queue, the rates."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.parameters import TwinParameters
from looplab.run.accounting import Columns, response
from looplab.run.document import More, samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, ANSWERED, LATE, NOT_SENT


def files(parameters: TwinParameters) -> list[File]:
    """Return samples.csv, with the way and the arrival of each message."""
    more: dict[str, More] = {
        "broker": lambda _columns, row: parameters.broker_of(row),
        "device": lambda _columns, row: parameters.device_of(row),
        "arrived_ns": lambda columns, row: "" if columns["arrived_ns"][row] == ABSENT else columns["arrived_ns"][row],
    }
    return [samples_file(TwinCell, parameters, more)]


def queues_and_rates(parameters: TwinParameters, columns: Columns, rows: range, cell: TwinCell) -> dict[str, Any]:
    """Return what run.json holds of a cell by its rows, beside counts and latencies."""
    state = columns["state"]
    sent = [row for row in rows if state[row] != NOT_SENT]
    stored = [row for row in sent if state[row] in (ANSWERED, LATE)]
    sent_ns = [columns["sent_ns"][row] for row in sent]
    committed_ns = [columns["received_ns"][row] for row in stored]
    return {
        "duplicates": sum(columns["copies"][row] for row in sent if columns["copies"][row] > 0),
        "queue_max": max(queue(sent_ns, committed_ns)[1], default=0),
        "drained_s": seconds(max(sent_ns), max(committed_ns)) if committed_ns else None,
        "rate_in_per_s": rate_per_s(sent_ns),
        "rate_out_per_s": rate_per_s(committed_ns),
        "response_us": response(columns, sent),
        "per_broker": _brokers(parameters, columns, sent, stored),
    }


def queue(sent_ns: Iterable[int], left_ns: Iterable[int]) -> tuple[list[int], list[int]]:
    """Return times in ascending order and, after each, how many messages were sent and have not left yet.

    Of events at one time the commits count first: a message that follows another at once never queues behind it.
    """
    events = sorted([*((at, 1) for at in sent_ns), *((at, -1) for at in left_ns)])
    return [at for at, _step in events], list(accumulate(step for _at, step in events))


def rate_per_s(times_ns: Sequence[int]) -> float | None:
    """Return how many a second between the first and the last; None for fewer than two or no time between."""
    if len(times_ns) < 2 or max(times_ns) == min(times_ns):
        return None
    return round((len(times_ns) - 1) * 1e9 / (max(times_ns) - min(times_ns)), 4)


def seconds(start_ns: int, end_ns: int) -> float:
    """Return the time between, 0 if the end is first."""
    return round(max(0, end_ns - start_ns) / 1e9, 6)


def _brokers(p: TwinParameters, columns: Columns, sent: Sequence[int], stored: Sequence[int]) -> list[dict[str, Any]]:
    """Return, of each broker, its messages, its rate, and its time from the first message sent to the last stored."""
    sent_ns, stored_ns = defaultdict(list), defaultdict(list)
    for row in sent:
        sent_ns[p.broker_of(row)].append(columns["sent_ns"][row])
    for row in stored:
        stored_ns[p.broker_of(row)].append(columns["received_ns"][row])
    return [
        {
            "broker": broker,
            "sent": len(times_ns),
            "stored": len(done_ns := stored_ns[broker]),
            "rate_out_per_s": rate_per_s(done_ns),
            "operation_s": seconds(min(times_ns), max(done_ns)) if done_ns else None,
        }
        for broker, times_ns in sorted(sent_ns.items())
    ]
