"""The CSV files of a run of qos-delay."""

from collections.abc import Iterator, Sequence

from looplab.experiments.qos_delay import EXPERIMENT, WIRE
from looplab.run.accounting import Columns
from looplab.run.document import samples_file
from looplab.run.record import File
from looplab.spec.columns import ABSENT, between
from looplab.spec.parameters import RunParameters

TRANSPORT_HEADER = "sequence,transport_total_us"


def files(parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run."""
    samples = samples_file(EXPERIMENT.table(parameters.scenario), parameters)
    return [samples, File("transport.csv", TRANSPORT_HEADER, transport_lines)]


def transport_lines(columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    """Yield the lines of transport.csv: from bytes leaving one socket to bytes entering the other."""
    for row in rows:
        if (latency_ns := between(*WIRE, columns, row)) != ABSENT:
            yield f"{row},{latency_ns / 1e3:.3f}"
