"""What a run stores of its cells, as their spec says: lines of samples.csv, cells of run.json."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from looplab.run.accounting import OUTCOMES, Columns, response_ns, summarise, tally
from looplab.run.record import File
from looplab.run.samples import ABSENT, NOT_SENT
from looplab.spec.cell import Cell, Paced
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import RunParameters

# These latencies exist for every message that was sent, whatever came back.
LATENESS = (Cell.send_lateness.name, Paced.schedule_lateness.name)
# The last column of a paced cell's samples; older runs lack it.
INTENDED = "intended_ns"
TIMES = ("due_ns", "sent_ns", "received_ns")
# Where a latency is looked up: the samples and a row.
Made = Callable[[Any, int], int]
# A field of the experiment's own in a line of samples.csv.
More = Callable[[Any, int], object]
NO_MORE: Mapping[str, More] = MappingProxyType({})


def files_of(experiment: Experiment, parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run: those of the experiment's document.py, else samples.csv alone."""
    own = getattr(experiment.optional_part("document"), "files", None)
    return own(parameters) if own else [samples_file(experiment.table(parameters.scenario), parameters)]


def samples_header(cell: type[Cell], more: Iterable[str] = ()) -> str:
    """Return the first line of samples.csv; `more` are columns of the experiment's own."""
    keys = [key.name for key in cell.key_columns()]
    repetition = [] if "repetition" in keys else ["repetition"]
    last = [INTENDED] if issubclass(cell, Paced) else []
    times = [*TIMES[:2], cell.received]
    return ",".join([*keys, *repetition, "sequence", *times, *_stored(cell), *more, "outcome", *last])


def samples_file(cell: type[Cell], parameters: RunParameters, more: Mapping[str, More] = NO_MORE) -> File:
    """Return samples.csv of a run with the cells of `parameters`; `more` gives columns of the experiment's own."""
    header = samples_header(cell, more)
    return File("samples.csv", header, lambda columns, rows: sample_lines(parameters, columns, rows, more))


def sample_lines(
    parameters: RunParameters, columns: Columns, rows: Sequence[int], more: Mapping[str, More] = NO_MORE
) -> Iterator[str]:
    """Yield the lines of samples.csv for `rows`, without line ends; none for rows that were never sent."""
    cells, size = parameters.cells, parameters.messages * parameters.repetitions
    own = type(cells[0])
    stored, fates = list(_stored(own).values()), outcomes_by_fate(own)
    keys = [",".join(cell.key_texts.values()) for cell in cells]
    repeats = "repetition" not in own.columns
    due, sent, received, state, intended = (columns[name] for name in (*TIMES, "state", INTENDED))
    for row in rows:
        if state[row] != NOT_SENT:
            latencies = [microseconds(made(columns, row)) for made in stored]
            own_columns = [str(make(columns, row)) for make in more.values()]
            repetition = [str(row % size // parameters.messages)] if repeats else []
            times = [str(due[row]), str(sent[row]), _whole(received[row])]
            fields = [*repetition, str(row), *times, *latencies, *own_columns]
            last = [_whole(intended[row])] if issubclass(own, Paced) else []
            yield ",".join([keys[row // size], *fields, fates[OUTCOMES[state[row]]], *last])


def cell_document(cell: Cell, columns: Columns, rows: Sequence[int], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry of `cells` in run.json: its key, counts and latencies by the samples; `more` is the rest."""
    own, state = type(cell), columns["state"]
    sent, measured = tally(columns, rows)
    fates = outcomes_by_fate(own)
    outcomes = [fates[OUTCOMES[state[row]]] for row in sent]
    known: dict[str, Any] = {count.name: outcomes.count(name) for name, count in own.outcomes().items()}
    latencies = {
        one.path[0]: summarise(latencies_ns(one.made, columns, sent if one.name in LATENESS else measured))
        for one in own.latencies()
        if one.made
    }
    asked = [(one.path[0], one.share) for one in own.figures() if one.share and sent]
    times_ns = response_ns(columns, sent) if asked else []
    known |= {name: round(sum(share(cell, ns) for ns in times_ns) / len(sent), 6) for name, share in asked}
    return with_figures(own, {**cell.key_document, own.total().name: len(sent), **known, **latencies, **more})


def with_figures(own: type[Cell], document: dict[str, Any]) -> dict[str, Any]:
    """Return a cell of run.json with each figure of its spec: those that it derives, null for one that is unknown."""
    cell = own(document)
    missing = ((one.path[0], one.of(cell)) for one in own.figures() if one.path[0] not in document)
    return {**document, **{name: value if value is None else round(value, 6) for name, value in missing}}


def latencies_ns(made: Made, columns: Columns, rows: Sequence[int]) -> list[int]:
    """Return a latency of each of `rows` in ns, of those that have it."""
    return [value for row in rows if (value := made(columns, row)) != ABSENT]


def outcomes_by_fate(cell: type[Cell]) -> dict[str, str]:
    """Return what the cells of an experiment call each fate that the accounting knows."""
    return {fate: name for name, count in cell.outcomes().items() for fate in count.fates}


def _stored(cell: type[Cell]) -> dict[str, Made]:
    """Return the latencies that samples.csv holds, by their column."""
    return {one.column: one.made for one in cell.latencies() if one.column and one.made}


def _whole(value_ns: int) -> str:
    return "" if value_ns == ABSENT else str(value_ns)


def microseconds(value_ns: int) -> str:
    """Return a duration in us as CSV files have it, "" for ABSENT."""
    return "" if value_ns == ABSENT else f"{value_ns / 1e3:.3f}"
