"""The files of a run as its controller writes them, live and stored: what its spec makes of known numbers."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.document import COLUMNS
from looplab.experiments.loop.parameters import LoopParameters
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.study_file import Study
from looplab.run.cells import CellResult, entry
from looplab.run.document import files_of
from looplab.run.samples import ABSENT, ANSWERED, WAITING, SampleStore
from looplab.spec.cell import Cell
from looplab.spec.columns import Count

MACHINE = {"cpu": "Simulated", "cores": 4, "kernel": "6.1.0", "load_before": [0.1, 0.1, 0.1], "revision": "abc"}
MS = 1_000_000
# How much later than due each message of a stored run left.
LATENESS_NS = 30_000
NOTHING: Mapping[str, Any] = MappingProxyType({})


def parameters(**changes: Any) -> dict[str, Any]:
    environment = {
        "SCENARIO": "scenario1", "INTERVALS_MS": "20 10", "MESSAGES": "10", "REPETITIONS": "2", "DEADLINE_MS": "1000",
    }  # fmt: skip
    environment.update({name: str(value) for name, value in changes.items()})
    made: dict[str, Any] = json.loads(json.dumps(LoopParameters.read(environment).as_json()))
    return made


class Writer:
    """Writes rows as the controller does."""

    def __init__(self, folder: Path, rows: int = 40) -> None:
        self.store = SampleStore(rows, folder / "samples.bin", COLUMNS)
        self.start = perf_counter_ns()

    def send(self, row: int, *, ago_ms: int = 0) -> None:
        self.store["state"][row] = WAITING
        self.store["due_ns"][row] = self.start - ago_ms * MS
        self.store["sent_ns"][row] = self.start - ago_ms * MS + 1000

    def answer(self, row: int, state: int = ANSWERED, total_ms: int = 5, robot_ms: int = 4) -> None:
        self.store["received_ns"][row] = self.store["sent_ns"][row] + total_ms * MS
        self.store["robot_ns"][row] = robot_ms * MS
        self.store["state"][row] = state


def publish_state(folder: Path, state: str, run_id: str = "20260101T000000Z-scenario1", **more: Any) -> None:
    fresh = folder / "state.json.new"
    asked = more.get("parameters") or parameters()
    if "cells" not in more and "planned_cells" not in more:
        keys = [(ms, qos) for qos in asked["qos"] for ms in asked["intervals_ms"]]
        more["planned_cells"] = [LoopCell.keyed(*key).key_document for key in keys]
    fresh.write_text(json.dumps({"state": state, "run_id": run_id, "parameters": asked, **more}))
    fresh.replace(folder / "state.json")


def fill(store: SampleStore, rows: range, **columns: Any) -> None:
    """Set columns of neighbouring rows: arrays, or one value for all."""
    for name, values in columns.items():
        np.asarray(store[name])[rows.start : rows.stop] = values


@dataclass(frozen=True)
class Simulated:
    """A cell whose messages are known: the latency of each in ns, `columns` of its rows, `more` in run.json.

    The last `lost` messages have no answer. `columns` may replace the usual times and states.
    """

    cell: Cell
    total_ns: Any
    interval_ms: float
    lost: int = 0
    columns: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


def sample(simulated: Sequence[Simulated], own: tuple[str, ...]) -> SampleStore:
    """Return the rows of all cells, one after the other; `own` are the experiment's own columns."""
    size = len(simulated[0].total_ns)
    store = SampleStore(size * len(simulated), more=own)
    for at, one in enumerate(simulated):
        rows, answered = range(at * size, (at + 1) * size), np.arange(size) < size - one.lost
        left_ns = 10**12 + np.array(rows) * round(one.interval_ms * MS) + LATENESS_NS
        usual = {
            "due_ns": left_ns - LATENESS_NS,
            "intended_ns": left_ns - LATENESS_NS,
            "sent_ns": left_ns,
            "received_ns": np.where(answered, left_ns + one.total_ns, ABSENT),
            "state": np.where(answered, ANSWERED, WAITING),
        }
        fill(store, rows, **{**usual, **one.columns})
    return store


def simulate(
    folder: Path,
    experiment: str,
    simulated: Sequence[Simulated],
    /,
    *,
    repetitions: int = 1,
    parameters: Mapping[str, Any] = NOTHING,
    settings: Mapping[str, Any] = NOTHING,
    figures: Callable[[Any, SampleStore, range, Any], Mapping[str, Any]] = lambda *_: NOTHING,
    **more: Any,
) -> Path:
    """Write the folder of a finished run: the cells and the samples.csv that the experiment's tables make of the rows.

    `parameters` and `more` are those of run.json; `settings` are what the experiment's own code asks of its parameters.
    `figures` returns what a cell holds by its rows, beside counts and latencies. What is not given is absent, of a
    count 0.
    """
    rows = len(simulated[0].total_ns)
    size = {"messages": rows // repetitions, "repetitions": repetitions}
    p = SimpleNamespace(
        cells=[one.cell for one in simulated], rows=lambda at: range(at * rows, (at + 1) * rows),
        scenario=folder.name.partition("-")[2], **size, **settings,
    )  # fmt: skip
    made = EXPERIMENTS[experiment]
    store = sample(simulated, made.part("controller").Controller.columns)
    counts = {count.name: 0 for count in simulated[0].cell.of_kind(Count) if not (count.total or count.outcome)}
    cells = []
    for at, one in enumerate(simulated):
        found = {**counts, **figures(p, store, p.rows(at), one.cell), **one.more}
        cells.append(entry(CellResult(one.cell, found), store, p.rows(at)))
    file = files_of(made, p)[0]
    lines = [file.header, *file.lines(store, range(store.count))]
    return finish(folder, experiment, cells, {**size, **parameters}, {file.name: lines}, **more)


@contextlib.contextmanager
def edited(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the document of a stored run, and store what becomes of it."""
    path = folder / "run.json"
    document = json.loads(path.read_text())
    yield document
    path.write_text(json.dumps(document))


def repeat(results: Path, runs: int = 6) -> None:
    """Copy each run that is alone of its kind, until there are so many alike, and make all of them a study's."""
    by_kind: dict[tuple[str, ...], list[Path]] = {}
    for path in sorted(results.glob("*/run.json")):
        run = json.loads(path.read_text())
        by_kind.setdefault((run["scenario"], run["fidelity"], json.dumps(run["parameters"])), []).append(path.parent)
    for folder in (folders[0] for folders in by_kind.values() if len(folders) == 1):
        for number in range(1, runs):
            # Of earlier years: the newest stays the newest.
            copy = shutil.copytree(folder, results / f"20{number:02}{folder.name[4:]}")
            with edited(copy) as run:
                run["run_id"] = copy.name
    write_study(results)


def write_study(results: Path, missing: int = 0, twice: bool = False) -> Study:
    """The study of which all runs in `results` are, a round for each start; its last `missing` rounds are to come.

    With `twice`, two neighbouring starts are one round, and each scenario has two arms.
    """
    starts = sorted({path.name.partition("-")[0] for path in results.glob("*-*/")})
    arms: dict[str, str] = {}
    runs = []
    for path in sorted(results.glob("*-*/")):
        begun, _, scenario = path.name.partition("-")
        at = starts.index(begun)
        block, arm = (at // 2, f"{scenario} {at % 2}") if twice else (at, scenario)
        arms[arm] = scenario
        runs.append({"block": block, "arm": arm, "run_id": path.name, "valid": True})
    done = range(runs[-1]["block"] + 1)
    blocks = [[run["arm"] for run in runs if run["block"] == at] for at in done] + [list(arms)] * missing
    study = Study("20260101T000000Z-study", ["stress"], 1, len(blocks), arms, blocks, {}, {}, runs=runs)
    study.write(results)
    return study


def finish(
    folder: Path,
    experiment: str,
    cells: Sequence[dict[str, Any]],
    parameters: dict[str, Any],
    files: dict[str, Iterable[str]],
    /,
    **more: Any,
) -> Path:
    """Write the files of a finished run into the folder of its name, and return that."""
    folder.mkdir(parents=True)
    document = {
        "schema": 1, "experiment": experiment, "run_id": folder.name, "scenario": folder.name.partition("-")[2],
        "fidelity": "thesis", "valid": True, "invalid_because": [], "cells": cells, "environment": MACHINE,
        "parameters": {"repetitions": 1, **parameters}, "treatments": [],
    }  # fmt: skip
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "run.json").write_text(json.dumps({**document, **more}))
    return folder


def treatment(what: str, found: str) -> dict[str, Any]:
    """One that was found as wanted."""
    return {"what": what, "wanted": found, "found": found, "verified": True, "required": True, "note": ""}


def store(results: Path, run_id: str, fidelity: str = "thesis", messages: int = 3, **changes: Any) -> Path:
    """A whole run of the loop, as a controller leaves it."""
    simulated = Simulated(LoopCell.keyed(20, 0), np.full(messages, 5 * MS), 20, columns={"robot_ns": 4 * MS})
    asked = {"scenario": run_id.partition("-")[2], "fidelity": fidelity, "intervals_ms": [20], "qos": [0]}
    changes = {"treatments": [treatment("w", "a")], **changes}
    return simulate(results / run_id, "loop", [simulated], parameters=asked, fidelity=fidelity, **changes)
