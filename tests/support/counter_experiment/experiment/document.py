"""What a run of the counter stores."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from looplab.experiments.counter.parameters import CounterParameters

from looplab.run.accounting import OUTCOMES, Columns, lateness, summarise, tally, total_ns
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT

SAMPLES_HEADER = "sleep_ms,repetition,sequence,due_ns,sent_ns,received_ns,total_us,outcome"


def files(parameters: CounterParameters) -> list[File]:
    """Return the CSV file of a run."""
    return [File("samples.csv", SAMPLES_HEADER, partial(sample_lines, parameters))]


def sample_lines(parameters: CounterParameters, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of samples.csv for `rows`; none for rows that were never begun."""
    for row in rows:
        state, sent, received = (columns[name][row] for name in ("state", "sent_ns", "received_ns"))
        if state != NOT_SENT:
            sleep_ms = parameters.sleeps_ms[row // parameters.messages]
            total = "," if received == ABSENT else f"{received},{(received - sent) / 1e3:.3f}"
            yield f"{sleep_ms:g},0,{row},{columns['due_ns'][row]},{sent},{total},{OUTCOMES[state]}"


def cell_document(parameters: CounterParameters, columns: Columns, index: int, sleep_ms: float) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    sent, measured, fates = tally(columns, parameters.rows(index))
    latency = summarise(total_ns(columns, measured))
    return {"sleep_ms": sleep_ms, **fates, "S_us": latency, "send_lateness_us": lateness(columns, sent)}
