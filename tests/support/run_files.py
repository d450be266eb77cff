"""The files of a run as its controller writes them: live, and stored."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.document import COLUMNS
from looplab.experiments.loop.parameters import read_parameters
from looplab.run.samples import ANSWERED, WAITING, SampleStore
from looplab.spec.cell import Cell
from support.run_checks import SAMPLES_HEADER
from support.simulated_runs import MACHINE

MS = 1_000_000


def parameters(**changes: Any) -> dict[str, Any]:
    environment = {
        "SCENARIO": "scenario1",
        "INTERVALS_MS": "20 10",
        "MESSAGES": "10",
        "REPETITIONS": "2",
        "DEADLINE_MS": "1000",
    }
    environment.update({name: str(value) for name, value in changes.items()})
    made: dict[str, Any] = json.loads(json.dumps(read_parameters(environment).as_json()))
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


def begin(
    live: Path, experiment: str, run_id: str, parameters: dict[str, Any], cells: Sequence[Cell] = (), /, **more: Any
) -> None:
    """The state of a run that is being measured; `cells` are those of its live rows."""
    asked = {"fidelity": "thesis", "repetitions": 1, **parameters}
    if cells:
        more["planned_cells"] = [cell.key_document for cell in cells]
    publish_state(live, "running", run_id, experiment=experiment, treatments=[], parameters=asked, **more)


def answer_at_once(store: SampleStore, latencies_ns: Iterable[int]) -> None:
    """Send the first messages of a running run now, each answered after its latency."""
    now = perf_counter_ns()
    for row, latency_ns in enumerate(latencies_ns):
        store["due_ns"][row] = store["sent_ns"][row] = now
        store["received_ns"][row] = now + latency_ns
        store["state"][row] = ANSWERED


@contextlib.contextmanager
def edited(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the document of a stored run, and store what becomes of it."""
    path = folder / "run.json"
    document = json.loads(path.read_text())
    yield document
    path.write_text(json.dumps(document))


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
        "parameters": {"repetitions": 1, **parameters},
    }  # fmt: skip
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "run.json").write_text(json.dumps({**document, **more}))
    return folder


def treatment(what: str, found: str) -> dict[str, Any]:
    """One that was found as wanted."""
    return {"what": what, "wanted": found, "found": found, "verified": True, "required": True, "note": ""}


def store(results: Path, run_id: str, fidelity: str = "thesis", messages: int = 3, **changes: Any) -> Path:
    """A whole run, as a controller leaves it."""
    folder = results / run_id
    folder.mkdir(parents=True)
    scenario = run_id.partition("-")[2]
    lines = [
        f"20,0,0,{k},{k * 20_000_000},{k * 20_000_000 + 1000},{k * 20_000_000 + 5_001_000},"
        "5000.000,4000.000,1000.000,answered"
        for k in range(messages)
    ]
    (folder / "samples.csv").write_text("\n".join([SAMPLES_HEADER, *lines]) + "\n")
    run = {
        "schema": 1,
        "run_id": run_id,
        "scenario": scenario,
        "fidelity": fidelity,
        "valid": True,
        "parameters": {
            "scenario": scenario,
            "fidelity": fidelity,
            "intervals_ms": [20],
            "qos": [0],
            "messages": messages,
            "repetitions": 1,
        },
        "cells": [{"interval_ms": 20, "qos": 0, "sent": messages}],
        "treatments": [{"what": "w", "wanted": "a", "found": "a", "verified": True, "required": True}],
        **changes,
    }
    (folder / "run.json").write_text(json.dumps(run))
    return folder
