"""The runs in results/: which are whole, which are not, and what each unusable one means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looplab.errors import UsageError
from looplab.report.cell import Cell, Key, cell_text
from looplab.report.schema import fault
from looplab.spec.experiment import Experiments
from looplab.run.folder import SCHEMA

# Parameters that a comparison does not depend on: names, and how long to wait for a part before the run begins.
NO_MATTER = (
    *("scenario", "fidelity", "title", "parts_timeout_s", "broker_host", "broker_port"),
    *("host_pb", "host_bs", "own_pb", "own_bs", "order_seed", "cell_order"),
)
EARLIER = {"order": "published", "pacing": "schedule"}
# A run of an experiment that this report does not show.
APART = "experiment"


@dataclass(frozen=True)
class Layout:
    """What an experiment writes into run.json and samples.csv, as far as every report reads it.

    `keys` tell cells apart: fields of a cell, and columns of samples.csv; those in `words` hold text, the others
    numbers. `metrics` gives the column of each latency.
    `outcomes` gives, for each outcome of a message, its count in a cell: they add up to the count `total`. Messages of
    an outcome in `measured` have every latency.
    `times` are the columns that a response needs, in nanoseconds: empty for an experiment that reports none.
    `scenarios` holds the layout of each scenario whose files differ from those of the others. `read` returns the cells
    of a run whose samples.csv has no line a message.
    `shown` is the latency and the cell of a figure of many runs; None: the first latency, the cell that most runs have.
    `factors` gives, by variable, a parameter and its usual value, by fidelity if that sets it: a run with another is
    shown beside the usual ones.
    """

    keys: tuple[str, ...]
    metrics: Mapping[str, str]
    cell: type[Cell] = Cell
    times: tuple[str, ...] = ()
    total: str = "sent"
    words: tuple[str, ...] = ()
    measured: tuple[str, ...] = ("answered", "late")
    outcomes: Mapping[str, str] = field(
        default_factory=lambda: {
            "answered": "answered",
            "late": "late",
            "lost": "lost",
            "robot_error": "robot_errors",
        }
    )
    scenarios: Mapping[str, Layout] = field(default_factory=dict)
    read: Callable[[StoredRun], Mapping[Key, Cell] | Unusable] | None = None
    shown: tuple[str, Key] | None = None
    factors: Mapping[str, tuple[str, str | Mapping[str, str]]] = field(default_factory=dict)

    def text(self, key: Key) -> str:
        """Return the cell of that key in words."""
        return cell_text(zip(self.keys, key, strict=True))

    def key(self, cell: Mapping[str, Any]) -> Key:
        """Return what identifies a cell of run.json."""
        return tuple(str(cell[name]) if name in self.words else float(cell[name]) for name in self.keys)


class StoredRun:
    """One whole run: its folder, its run.json and how to read them."""

    def __init__(self, path: Path, document: dict[str, Any], experiment: str, layout: Layout) -> None:
        self.path, self.document, self.experiment, self.layout = path, document, experiment, layout
        self.name = path.name
        self.run_id = str(document["run_id"])
        self.scenario = str(document["scenario"])
        self.fidelity = str(document["fidelity"])
        self.valid = bool(document["valid"])
        self.invalid_because = "; ".join(document["invalid_because"])
        self.parameters: dict[str, Any] = document["parameters"]
        self.repetitions = int(self.parameters.get("repetitions", 0))
        self.messages = int(self.parameters.get("messages", 0))
        environment = document["environment"]
        # Two machines of one model are two machines.
        names = (environment.get(name) for name in ("cpu", "kernel", "machine"))
        cpu, kernel, machine = (str(name) if name is not None else "" for name in names)
        self.machine = (cpu or "None", int(environment["cores"]), kernel, machine)

    @property
    def machine_text(self) -> str:
        cpu, cores, kernel, machine = self.machine
        return f"{cpu}, {cores} cores, kernel {kernel}" + (f", machine {machine}" if machine else "")

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors of its layout that are not as usual, as params.env writes them: ("ADAPTER=ftdi-16",)."""
        named = [
            (variable, name, usual if isinstance(usual, str) else usual[self.fidelity])
            for variable, (name, usual) in self.layout.factors.items()
        ]
        held = [(variable, as_text(self.parameters.get(name, usual)), usual) for variable, name, usual in named]
        return tuple(f"{variable}={value}" for variable, value, usual in held if value != usual)

    @cached_property
    def context(self) -> dict[str, str]:
        """What must agree before two runs may be compared: name and value of each parameter and of where it ran."""
        environment = self.document["environment"]
        parameters = {name: as_text(value) for name, value in self.parameters.items() if name not in NO_MATTER}
        # How runs were made before these were factors.
        parameters = {**EARLIER, **parameters}
        where = {name: as_text(environment.get(name, "unknown")) for name in ("revision", "boot")}
        return {**parameters, "machine": self.machine_text, **where}

    @property
    def samples(self) -> int:
        return sum(int(cell[self.layout.total]) for cell in self.cells.values())

    @cached_property
    def cells(self) -> Mapping[Key, Mapping[str, Any]]:
        """The cells of run.json by key."""
        return {self.layout.key(cell): cell for cell in self.document["cells"]}

    def damaged(self, meaning: str) -> Unusable:
        """Return what is left of this run if its samples cannot be used."""
        return Unusable(self.name, "damaged", meaning, self.experiment)

    def treatment(self, what: str) -> dict[str, Any] | None:
        return next((entry for entry in self.document["treatments"] if entry["what"] == what), None)


def differences(one: StoredRun, other: StoredRun, about: Sequence[str] = ()) -> list[str]:
    """Return what makes two runs unlike, e.g. "LINK (scenario1: none, scenario2: wifi)"; `about` may differ.

    A name in `about` means all that begin with it, so a load includes its options.
    """
    first, second = one.context, other.context
    names = [name for name in {**first, **second} if not name.startswith(tuple(about))]
    apart = [name for name in names if first.get(name) != second.get(name)]
    labels = (one.scenario, other.scenario) if one.scenario != other.scenario else (one.run_id, other.run_id)
    return [
        f"{name.upper() if name in one.parameters or name in other.parameters else name} "
        f"({labels[0]}: {first.get(name, 'not set')}, {labels[1]}: {second.get(name, 'not set')})"
        for name in apart
    ]


def as_text(value: object) -> str:
    """Return a parameter as params.env has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(as_text(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Unusable:
    """A folder without a usable run: its fault, what follows from it, and the experiment whose report names it."""

    name: str
    kind: str
    meaning: str
    experiment: str

    def __str__(self) -> str:
        return f"not used: {self.name} ({self.kind}). {self.meaning}"


@dataclass
class Selection:
    """The runs a report is about, those it leaves out and why."""

    runs: list[StoredRun] = field(default_factory=list)
    unusable: list[Unusable] = field(default_factory=list)
    set_aside: list[tuple[StoredRun, str]] = field(default_factory=list)

    @property
    def found(self) -> list[StoredRun | Unusable]:
        return [*self.runs, *self.unusable]


def run_folders(results: Path, named: Sequence[str] = ()) -> list[Path]:
    """Return the folders of `named` (run ids or paths), or all folders of `results`. LabError if there is none."""
    if not named:
        if not results.is_dir():
            raise UsageError(f"There is no folder {results}.", "Make a run first: ./lab run scenario1")
        return sorted(path for path in results.iterdir() if path.is_dir())
    return [run_folder(results, name) for name in dict.fromkeys(named)]


def run_folder(results: Path, name: str) -> Path:
    """Return the folder of one run by its id or path. LabError (exit code 2) if there is none."""
    for path in (results / name, Path(name)):
        if path.is_dir():
            return path
    raise UsageError(f"There is no run {name!r}.", f"Name a folder of {results}, or the path of a run.")


def run_order(run: StoredRun) -> tuple[list[tuple[int, str]], bool, str]:
    """Return a sort key: scenarios in the order of their numbers, thesis before corrected."""
    parts = re.findall(r"\d+|\D+", run.scenario)
    name = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return name, run.fidelity != "thesis", run.run_id


def read_run(path: Path, experiments: Experiments) -> StoredRun | Unusable:
    """Return the run in a folder, or what that folder is instead."""
    trouble, document = _document(path)
    if trouble:
        return Unusable(path.name, *trouble, experiments.default)
    try:
        experiment = experiments.of(document)
    except KeyError:
        meaning = f"of the experiment {document['experiment']}, left to its own report."
        return Unusable(path.name, APART, meaning, experiments.default)
    whole: Layout = experiment.part("report").LAYOUT
    layout = whole.scenarios.get(str(document.get("scenario")), whole)
    meaning = _damage(document, layout, experiment.folder / "run.schema.json")
    if not meaning and not (path / "samples.csv").is_file():
        meaning = "samples.csv is missing: nothing in run.json can be checked, and nothing has an interval."
    if meaning:
        return Unusable(path.name, "damaged", meaning, experiment.name)
    return StoredRun(path, document, experiment.name, layout)


def _document(path: Path) -> tuple[tuple[str, str] | None, dict[str, Any]]:
    """Return what run.json holds, or why it is no document of this lab: kind and meaning."""
    if path.name.startswith("."):
        return ("in progress", "A run that is being made, or one whose controller was killed."), {}
    if not (path / "run.json").is_file():
        return _without_document(path), {}
    try:
        # NaN and Infinity are no JSON, but Python writes them: a figure without a value.
        document = json.loads((path / "run.json").read_text(encoding="utf-8"), parse_constant=lambda _name: None)
    except (OSError, ValueError, RecursionError) as error:
        lines = str(error).splitlines()
        why = lines[0] if lines else type(error).__name__
        return ("damaged", f"run.json cannot be read ({why}): run it again."), {}
    if not isinstance(document, dict) or "schema" not in document:
        return ("foreign", "run.json is not a document of this lab (it has no schema)."), {}
    schema = document["schema"]
    if isinstance(schema, int) and schema > SCHEMA:
        return ("newer", f"Its schema is {schema}, this lab reads {SCHEMA}: update the lab to read it."), {}
    if schema != SCHEMA:
        return ("foreign", f"Its schema is {schema!r}; this lab reads {SCHEMA}."), {}
    return None, document


def _damage(document: dict[str, Any], layout: Layout, schema: Path) -> str:
    found = fault(document, schema)
    if found:
        return f"{found} in run.json: run it again."
    for cell in document["cells"]:
        counted = sum(cell.get(count, 0) for count in layout.outcomes.values())
        if cell[layout.total] != counted:
            return f"Its counts do not add up: {cell[layout.total]} {layout.total}, {counted} accounted for."
    keys = [layout.key(cell) for cell in document["cells"]]
    return "A cell is listed twice in run.json: run it again." if len(set(keys)) < len(keys) else ""


def _without_document(path: Path) -> tuple[str, str]:
    samples = path / "samples.csv"
    held = f"{_lines(samples) - 1} samples are kept in its samples.csv" if samples.is_file() else "it holds no samples"
    if (path / "interrupted.json").is_file():
        why = _interrupted_because(path / "interrupted.json")
        return "interrupted", f"Stopped before it was whole ({why}): {held}."
    if samples.is_file():
        return "half-written", f"The run never ended (no run.json): {held}."
    return "foreign", "No folder of a run: neither run.json nor samples.csv."


def _interrupted_because(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["interrupted_because"]).splitlines()[0]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return "for an unknown reason"


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
