"""The runs in results/: which are whole, which are not, and what each that cannot be used means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from looplab.errors import EXIT_USAGE, LabError
from looplab.run.folder import SCHEMA

RUN_ID = re.compile(r"(?P<start>[0-9]{8}T[0-9]{6}Z)-(?P<scenario>[a-z0-9][a-z0-9_-]*)")
NEEDED = {
    "run_id": str,
    "scenario": str,
    "fidelity": str,
    "valid": bool,
    "invalid_because": list,
    "parameters": dict,
    "cells": list,
    "treatments": list,
    "environment": dict,
}
# What is no run of the control loop has a report of its own.
EXPERIMENT = "experiment"
# No run.json is known yet.
UNREAD: Mapping[Path, Any] = MappingProxyType({})
_COUNTS = ("sent", "answered", "late", "lost", "robot_errors")
_OTHER_COUNTS = ("duplicates", "out_of_order", "disconnects", "waited")


@dataclass(frozen=True)
class StoredRun:
    """One whole run: its folder and its run.json."""

    path: Path
    document: dict[str, Any]

    @property
    def run_id(self) -> str:
        return str(self.document["run_id"])

    @property
    def scenario(self) -> str:
        return str(self.document["scenario"])

    @property
    def fidelity(self) -> str:
        return str(self.document["fidelity"])

    @property
    def valid(self) -> bool:
        return bool(self.document["valid"])

    @property
    def repetitions(self) -> int:
        return int(self.document["parameters"].get("repetitions", 0))

    @property
    def messages(self) -> int:
        return int(self.document["parameters"].get("messages", 0))

    @property
    def machine(self) -> tuple[str, int, str]:
        """What must agree before two runs may be compared."""
        environment = self.document["environment"]
        return (str(environment.get("cpu")), int(environment.get("cores") or 0), str(environment.get("kernel")))

    @property
    def samples(self) -> int:
        return sum(int(cell["sent"]) for cell in self.document["cells"])


@dataclass(frozen=True)
class Unusable:
    """A folder that is no usable run: what is wrong with it, and what that means."""

    name: str
    kind: str
    meaning: str

    def told(self) -> str:
        """As a line in the terminal."""
        return f"not used: {self.name} ({self.kind}). {self.meaning}"


@dataclass
class Selection:
    """The runs a report is about, those it leaves out and why."""

    runs: list[StoredRun] = field(default_factory=list)
    unusable: list[Unusable] = field(default_factory=list)
    older: list[StoredRun] = field(default_factory=list)


def documents(results: Path, named: Sequence[str]) -> dict[Path, Any]:
    """What run.json holds, unchecked, by the folders of `named` (run ids or folders), or all of `results`, that have
    one; each is read but once for all reports."""
    if named:
        places = [path for name in named for path in (results / name, Path(name))]
    else:
        places = sorted(results.iterdir()) if results.is_dir() else []
    return {path: read_document(path) for path in places if (path / "run.json").is_file()}


def select(results: Path, named: Sequence[str], known: Mapping[Path, Any] = UNREAD) -> Selection:
    """The runs of `named` (run ids or folders); without any, the newest of each scenario and fidelity.

    `known` is what `documents` has read already.
    """
    if named:
        return _split(_named_folders(results, named), known)
    if not results.is_dir():
        raise LabError(f"There is no folder {results}.", "Make a run first: ./lab run scenario1", EXIT_USAGE)
    found = _split(sorted(path for path in results.iterdir() if path.is_dir()), known)
    newest: dict[tuple[str, str], StoredRun] = {}
    for run in sorted(found.runs, key=lambda run: run.path.name):
        earlier = newest.get((run.scenario, run.fidelity))
        if earlier is not None:
            found.older.append(earlier)
        newest[run.scenario, run.fidelity] = run
    found.runs = sorted(newest.values(), key=run_order)
    return found


def run_order(run: StoredRun) -> tuple[list[tuple[int, str]], bool, str]:
    """Scenarios in the order of their numbers, thesis before corrected."""
    parts = re.findall(r"\d+|\D+", run.scenario)
    name = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return name, run.fidelity != "thesis", run.run_id


def read_run(path: Path, document: Any = None) -> StoredRun | Unusable:
    """The run in a folder, or what that folder is instead; `document` is its run.json where that is known."""
    document = document or read_document(path)
    return document if isinstance(document, Unusable) else checked(path, document)


def read_document(path: Path) -> Any:
    """What run.json in a folder holds, unchecked; Unusable where it cannot be read."""
    name = path.name
    if name.startswith("."):
        return Unusable(name, "in progress", "A run that is being made, or one whose controller was killed.")
    if not (path / "run.json").is_file():
        return _without_document(path)
    try:
        return json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Unusable(name, "damaged", f"run.json cannot be read ({_first_line(error)}): run it again.")


def checked(path: Path, document: Any) -> StoredRun | Unusable:
    """The run of the control loop that `document`, its run.json, tells, or what is wrong with it."""
    trouble = _document_trouble(document)
    if trouble:
        return Unusable(path.name, *trouble)
    if not (path / "samples.csv").is_file():
        return Unusable(
            path.name,
            "damaged",
            "samples.csv is missing: nothing in run.json can be checked, and nothing has an interval.",
        )
    return StoredRun(path, document)


def _split(folders: Iterable[Path], known: Mapping[Path, Any]) -> Selection:
    selection = Selection()
    for folder in folders:
        found = read_run(folder, known.get(folder))
        if isinstance(found, StoredRun):
            selection.runs.append(found)
        else:
            selection.unusable.append(found)
    selection.runs.sort(key=run_order)
    return selection


def _named_folders(results: Path, named: Sequence[str]) -> list[Path]:
    folders = []
    for name in dict.fromkeys(named):
        places = [path for path in (results / name, Path(name)) if path.is_dir()]
        if not places:
            raise LabError(
                f"There is no run {name!r}.", f"Name a folder of {results}, or the path of a run.", EXIT_USAGE
            )
        folders.append(places[0])
    return folders


def _without_document(path: Path) -> Unusable:
    samples = path / "samples.csv"
    held = f"{_lines(samples) - 1} samples are kept in its samples.csv" if samples.is_file() else "it holds no samples"
    if (path / "interrupted.json").is_file():
        why = _interrupted_because(path / "interrupted.json")
        return Unusable(path.name, "interrupted", f"Stopped before it was whole ({why}): {held}.")
    if samples.is_file():
        return Unusable(path.name, "half-written", f"The run never ended (no run.json): {held}.")
    return Unusable(path.name, "foreign", "No folder of a run: neither run.json nor samples.csv.")


def _document_trouble(document: Any) -> tuple[str, str] | None:
    if not isinstance(document, dict) or "schema" not in document:
        return "foreign", "run.json is not a document of this lab (it has no schema)."
    schema = document["schema"]
    if isinstance(schema, int) and schema > SCHEMA:
        return "newer", f"Its schema is {schema}, this lab reads {SCHEMA}: update the lab to read it."
    if schema != SCHEMA:
        return "foreign", f"Its schema is {schema!r}; this lab reads {SCHEMA}."
    if "experiment" in document:
        return EXPERIMENT, f"of the experiment {document['experiment']}, left to its own report."
    missing = [key for key in NEEDED if key not in document]
    if missing:
        return "damaged", f"run.json lacks {', '.join(missing)}: run it again."
    wrong = _wrong_shape(document)
    if wrong:
        return "damaged", f"{wrong} in run.json is not what this lab writes: run it again."
    for cell in document["cells"]:
        counted = cell["answered"] + cell["late"] + cell["lost"] + cell["robot_errors"]
        if cell["sent"] != counted:
            return "damaged", f"Its counts do not add up: {cell['sent']} sent, {counted} accounted for."
    return None


def _wrong_shape(document: dict[str, Any]) -> str:
    """The first value that a report could not work with, "" where all are sound."""
    for key, kind in NEEDED.items():
        if type(document[key]) is not kind:
            return key
    parameters, environment = document["parameters"], document["environment"]
    for key in ("repetitions", "messages"):
        if not _is_count(parameters.get(key), 1):
            return f"parameters.{key}"
    if not _is_count(environment.get("cores"), 1):
        return "environment.cores"
    images = environment.get("images", {})
    if not isinstance(images, dict) or not all(isinstance(image, dict) for image in images.values()):
        return "environment.images"
    for entry in document["treatments"]:
        if not isinstance(entry, dict) or not {"what", "wanted", "found", "verified"} <= entry.keys():
            return "a treatment"
    cells = document["cells"]
    if not cells or any(_wrong_cell(cell) for cell in cells):
        return f"a cell ({_wrong_cell(cells[0]) or 'another than the first'})" if cells else "cells"
    if len({(cell["interval_ms"], cell["qos"]) for cell in cells}) < len(cells):
        return "the list of cells (one stands there twice)"
    return ""


def _wrong_cell(cell: Any) -> str:
    if not isinstance(cell, dict):
        return "no mapping"
    interval_ms = cell.get("interval_ms")
    if isinstance(interval_ms, bool) or not isinstance(interval_ms, int | float) or not 0 < interval_ms < 1e9:
        return "interval_ms"
    if cell.get("qos") not in (0, 1, 2) or isinstance(cell.get("qos"), bool):
        return "qos"
    for key in _COUNTS:
        if not _is_count(cell.get(key), 0):
            return key
    for key in _OTHER_COUNTS:
        if not _is_count(cell.get(key, 0), 0):
            return key
    for key in (name for name in cell if str(name).endswith("_us")):
        figures = cell[key]
        if not isinstance(figures, dict) or not all(_is_figure(value) for value in figures.values()):
            return str(key)
    return ""


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _interrupted_because(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["interrupted_because"]).splitlines()[0]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return "for an unknown reason"


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
