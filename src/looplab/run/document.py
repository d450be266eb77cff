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
# Where a latency is looked up: the samples and a row.
Made = Callable[[Any, int], int]
# A field of a line of samples.csv.
More = Callable[[Any, int], object]
NO_MORE: Mapping[str, More] = MappingProxyType({})


def files_of(experiment: Experiment, parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run: those of the experiment's document.py, else samples.csv alone."""
    own = getattr(experiment.optional_part("document"), "files", None)
    return own(parameters) if own else [samples_file(experiment.table(parameters.scenario), parameters)]


def samples_file(cell: type[Cell], parameters: RunParameters, more: Mapping[str, More] = NO_MORE) -> File:
    """Return samples.csv of a run with the cells of `parameters`; `more` gives columns of the experiment's own.

    Its lines have no line ends, and there are none for rows that were never sent.
    """
    size, fates = parameters.messages * parameters.repetitions, outcomes_by_fate(cell)
    keys = [one.key_texts for one in parameters.cells]
    fields: dict[str, More] = {key.name: _key(keys, size, key.name) for key in cell.key_columns()}
    if "repetition" not in fields:
        fields["repetition"] = lambda _columns, row: row % size // parameters.messages
    fields |= {
        "sequence": lambda _columns, row: row,
        "due_ns": lambda columns, row: columns["due_ns"][row],
        "sent_ns": lambda columns, row: columns["sent_ns"][row],
        cell.received: _time("received_ns"),
        **{one.column: _latency(one.made) for one in cell.latencies() if one.column and one.made},
        **more,
        "outcome": lambda columns, row: fates[OUTCOMES[columns["state"][row]]],
    }
    if issubclass(cell, Paced):
        # Older runs lack it.
        fields["intended_ns"] = _time("intended_ns")

    def lines(columns: Columns, rows: Iterable[int]) -> Iterator[str]:
        sent = (row for row in rows if columns["state"][row] != NOT_SENT)
        return (",".join(str(make(columns, row)) for make in fields.values()) for row in sent)

    return File("samples.csv", ",".join(fields), lines)


def _key(keys: Sequence[Mapping[str, str]], size: int, name: str) -> More:
    return lambda _columns, row: keys[row // size][name]


def _time(name: str) -> More:
    return lambda columns, row: "" if columns[name][row] == ABSENT else columns[name][row]


def _latency(made: Made) -> More:
    return lambda columns, row: microseconds(made(columns, row))


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


def microseconds(value_ns: int) -> str:
    """Return a duration in us as CSV files have it, "" for ABSENT."""
    return "" if value_ns == ABSENT else f"{value_ns / 1e3:.3f}"
