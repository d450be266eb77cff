"""Runs of any experiment as commands make them, whose figures its spec names and chance draws."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil, isinf, log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from looplab.exercises.exercise import Exercise, Value, WantedRun
from looplab.experiments.registry import EXPERIMENTS
from looplab.run.accounting import summarise
from looplab.run.document import files_of
from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Figure, Latency, Part
from looplab.spec.document import at, defined
from looplab.spec.experiment import Bound, Experiment
from looplab.spec.parameters import RunParameters
from support.handouts import runs_of
from support.run_files import finish, treatment
from support.simulated_middleware_runs import by_cores, write_middleware_run

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
# More messages of a cell would show nothing more.
MOST_ROWS = 300
# A figure that is moved for one point may leave the bounds of another one.
PASSES = 5
# What a field of a list has, by the shape that its spec names.
VALUES = {defined(kind)["$ref"]: value for kind, value in
          {"text": "a", "switch": True, "count": 3, "amount": 4.5, "number": 4.5}.items()}  # fmt: skip


# What is known of a cell, by the name of the column.
Truth = Callable[[Any], Mapping[str, Any]]


class SimulatedCell:
    """A cell whose figures are drawn at random, as its spec names them; a latency has a value for each message."""

    def __init__(self, rng: np.random.Generator, cell: Cell, rows: int, messages: int) -> None:
        self.cell, self.rows, self.messages, self.lost = cell, rows, messages, 0
        self.ns = {one.name: rng.lognormal(log(rng.uniform(2e6, 2e7)), 0.3, rows) for one in cell.latencies()}
        self.more: dict[str, Any] = {}
        for column in cell.columns.values():
            if isinstance(column, Figure) and not column.derived:
                _put(self.more, column.path, rng.uniform(100, 1000))
            if isinstance(column, Part):
                for name in column.parts:
                    _put(self.more, (*column.path, name), rng.uniform(1000, 10_000))
                if fields := column.shape.get("items", {}).get("properties"):
                    _put(self.more, column.path, [{name: VALUES[kind["$ref"]] for name, kind in fields.items()}])
        self.outcomes = list(cell.outcomes().values())
        self.answered, self.missing = (
            next(count for count in self.outcomes if fate in count.fates) for fate in ("answered", "lost")
        )

    @property
    def document(self) -> dict[str, Any]:
        """Its entry in run.json."""
        counts = {**{count.name: 0 for count in self.outcomes}, self.cell.total().name: self.rows}
        counts |= {self.answered.name: self.rows - self.lost, self.missing.name: self.lost}
        answered = {name: ns[: self.rows - self.lost] for name, ns in self.ns.items()}
        latencies = {one.path[0]: summarise(np.rint(answered[one.name]).tolist()) for one in self.cell.latencies()}
        state = {"valid": True, "invalid_because": []}
        return {**self.cell.key_document, **state, **counts, **latencies, **self.more}

    def hold(self, truth: Mapping[str, Any]) -> None:
        """Give columns, by name, these values: of a latency it is the mean in us."""
        for name, value in truth.items():
            column = self.cell.columns[name]
            if isinstance(column, Latency):
                self.ns[name] *= 1000 * value / self.ns[name].mean()
            elif column is self.missing:
                self.lost = value
            else:
                _put(self.more, column.path, value)

    def move(self, value: Value, target: float) -> None:
        """Make a figure what a point wants."""
        column = self.cell.columns[value.name.partition(".")[0]]
        if isinstance(column, Count):
            self.lost = ceil(target)
            return
        factor = target / read(value, self.document)
        if isinstance(column, Latency):
            self.ns[column.name] *= factor
        elif isinstance(column, Figure) and column.over:
            self.ns[column.over[0]] *= factor
        else:
            path = (*column.path, *value.name.split(".")[1:])
            _put(self.more, path, factor * at(self.more, path))

    @property
    def samples(self) -> pd.DataFrame:
        """Its lines of samples.csv."""
        answered = np.arange(self.rows) < self.rows - self.lost
        due_ns = 10**12 + 10**7 * np.arange(self.rows)
        # No part takes longer than the whole.
        whole_ns = sum((self.ns[one.name] for one in self.cell.latencies() if one.column), np.zeros(self.rows))
        return pd.DataFrame({
            "repetition": np.arange(self.rows) // self.messages,
            **self.cell.key_texts,
            **{one.column: np.where(answered, np.rint(self.ns[one.name]) / 1000, np.nan)
               for one in self.cell.latencies() if one.column},
            "outcome": np.where(answered, self.answered.outcome, self.missing.outcome),
            "due_ns": due_ns,
            "sent_ns": due_ns,
            self.cell.received: np.where(answered, due_ns + np.rint(whole_ns), np.nan),
        })  # fmt: skip


def _put(document: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for step in path[:-1]:
        document = document.setdefault(step, {})
    document[path[-1]] = value


def read(value: Value, document: Mapping[str, Any]) -> float:
    """Return a figure of a cell of run.json, a latency in ms."""
    name, _, part = value.name.partition(".")
    cell = type(value.cell)(document)
    if name not in cell.columns:
        return float(cell.columns[name.removesuffix("_share")].of(cell) / cell.total().of(cell))
    found = cell.columns[name].of(cell)
    return float(found[part] if part else found) / (1000 if value.unit == "us" else 1)


def make_runs(
    results: Path, *ordered: str, exercises: Sequence[Exercise] = (), truth: Truth = lambda _cell: {}, start: str = ""
) -> list[Path]:
    """Write the runs of commands `./lab run …`, newer than all that are there, or all of them of `start`.

    The points of `exercises` hold; `truth` returns what columns of a cell are in place of what chance draws.
    """
    runs = [asked for command in ordered for asked in runs_of(command)]
    typed = [command for command in ordered for _ in runs_of(command)]
    results.mkdir(exist_ok=True)
    first = len(list(results.iterdir()))
    starts = [start or f"{FIRST + timedelta(minutes=first + number):%Y%m%dT%H%M%SZ}" for number in range(len(runs))]
    simulated = [{} if _own_files(one) else _cells(begun, one) for begun, one in zip(starts, runs, strict=True)]
    for cell in (cell for cells in simulated for cell in cells.values()):
        cell.hold(truth(cell.cell))
    found: list[dict[str, str]] = [{} for _ in runs]
    unverified: list[set[str]] = [set() for _ in runs]
    for exercise in exercises:
        places = {wanted.handle: newest_place(wanted, [asked.as_json() for asked in runs]) for wanted in exercise.runs}
        _hold([point.wants for point in exercise.points if isinstance(point.wants, Bound)],
              {handle: simulated[place] for handle, place in places.items()})  # fmt: skip
        for handle, what, state in _treatments(exercise):
            found[places[handle]][what] = state
        for wanted in exercise.runs:
            unverified[places[wanted.handle]] |= {wanted.allows} - {""}
    return [_write(results, *one) for one in zip(starts, runs, typed, simulated, found, unverified, strict=True)]


def _own_files(asked: RunParameters) -> bool:
    """Return whether its report reads files of its own, which no samples.csv with a line a message replaces."""
    return hasattr(_experiment(asked).optional_part("report"), "read")


def _experiment(asked: RunParameters) -> Experiment:
    return next(one for one in EXPERIMENTS.values() if one.parameters is type(asked))


def _cells(start: str, asked: RunParameters) -> dict[Any, SimulatedCell]:
    rng = np.random.default_rng([*start.encode()])
    rows = min(MOST_ROWS, asked.messages * asked.repetitions)
    return {cell.key: SimulatedCell(rng, cell, rows, asked.messages) for cell in asked.published_cells}


def newest_place(wanted: WantedRun, parameters: Sequence[Mapping[str, Any]]) -> int:
    """Return which run is the last one of those that fit."""
    asked = {"scenario": wanted.scenario, **wanted.parameters}
    asked |= {"fidelity": wanted.fidelity} if wanted.fidelity else {}
    plain = json.loads(json.dumps(parameters))
    return max(place for place, one in enumerate(plain) if all(one[name] == value for name, value in asked.items()))


def _treatments(exercise: Exercise) -> Iterable[tuple[str, str, str]]:
    """Yield run, treatment and the state to be found there: what a point wants, or an option of a question."""
    for question in exercise.questions:
        if question.found:
            yield question.found.run, question.found.what, next(iter(question.options.values()))
    for point in exercise.points:
        if not isinstance(point.wants, Bound):
            yield point.wants.run, point.wants.what, point.wants.found or "as wanted"


def _hold(bounds: Sequence[Bound[Value]], runs: Mapping[str, Mapping[Any, SimulatedCell]]) -> None:
    """Move figures until all are within their bounds; those of cells that were not ordered stay out."""
    for bound in [*bounds] * PASSES:
        value, over = bound.figure, bound.figure.over
        cells = [runs[one.run].get(one.cell.key) for one in (value, over) if one]
        if None not in cells:
            below = read(over, cells[-1].document) if over else 1
            low, high = bound.ends
            if not low <= read(value, cells[0].document) / below <= high:
                target = 1.5 * low if isinf(high) else 0.6 * high if isinf(low) else (low + high) / 2
                cells[0].move(value, target * below)


def _write(
    results: Path,
    start: str,
    asked: RunParameters,
    typed: str,
    cells: Mapping[Any, SimulatedCell],
    found: Mapping[str, str],
    unverified: set[str],
) -> Path:
    parameters = json.loads(json.dumps(asked.as_json()))
    treatments = [{**treatment(what, state), "verified": what not in unverified} for what, state in found.items()]
    more = {
        "fidelity": asked.fidelity, "command_line": typed, "token": start, "treatments": treatments,
        "valid": not unverified, "invalid_because": sorted(unverified),
    }  # fmt: skip
    if _own_files(asked):
        # With less capacity half of the requests have no answer, and a median is infinite.
        return write_middleware_run(
            results, asked.scenario, start=start, cells=asked.cells, capacity=lambda cell: 3 * by_cores(cell),
            repetitions=asked.repetitions, changes={"fidelity": asked.fidelity, "parameters": parameters},
        )  # fmt: skip
    experiment = _experiment(asked)
    columns = files_of(experiment, asked)[0].header.split(",")
    samples = pd.concat([cell.samples for cell in cells.values()]).reindex(columns=columns)
    documents = [cell.document for cell in cells.values()]
    files = {"samples.csv": samples.to_csv(index=False, float_format="%.3f").splitlines()}
    return finish(results / f"{start}-{asked.scenario}", experiment.name, documents, parameters, files, **more)
