"""The runs in results/: which are whole, which are not, and what each unusable one means."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from looplab.errors import UsageError
from looplab.report.cell import Key, MeasuredCell, measured_kind
from looplab.report.schema import LONGEST, fault, run_schema
from looplab.run.folder import SCHEMA
from looplab.spec.experiment import Experiment, Experiments
from looplab.spec.parameters import Param
from looplab.spec.reader import FIDELITIES, as_text
from looplab.system.machine_facts import NO_ID, SHARED, UNKNOWN, own_file
from looplab.treatments.loads import loads

# Those of an hour of messages have 0.1 MiB; one of 27 MiB takes 700 MiB of memory to read.
MOST_RUN_BYTES = 8 << 20
# A whole number of 64 bits; larger ones are no figure, and no float holds some of them.
MOST_DIGITS = 19
# They watch a run: it is the same with other images of them.
OBSERVERS = ("prometheus", "grafana")


class Layout:
    """How a scenario's stored runs are read, as the spec of its experiment says.

    The experiment's `report` package may give CELLS, its own kinds of MeasuredCell: by scenario, "" is any other.
    `read`, if that package has it, returns the cells of a run whose samples.csv has no line a message. `PUBLISHED` are
    the scenarios whose loads are published with their options.
    """

    def __init__(self, experiment: Experiment, scenario: str) -> None:
        report = experiment.optional_part("report")
        kinds: Mapping[str, type[MeasuredCell]] = getattr(report, "CELLS", {})
        self.experiment = experiment
        self._table = experiment.table(scenario)
        self.has_published_load = scenario in getattr(report, "PUBLISHED", ())
        self.cell = kinds.get(scenario) or kinds.get("") or measured_kind(self._table)
        self.read: Callable[[StoredRun], Mapping[Key, MeasuredCell]] | None = getattr(report, "read", None)
        keys, latencies = self.cell.key_columns(), self.cell.latencies()
        self.keys = tuple(key.name for key in keys)
        self.metrics = {one.name: one.column for one in latencies if one.column}
        self.total = self.cell.total().name
        self.outcomes = {outcome: count.path[0] for outcome, count in self.cell.outcomes().items()}
        self.measured = tuple(o for o, c in self.cell.outcomes().items() if {"answered", "late"} & {*c.fates})
        self.times = ("due_ns", "received_ns") if "response" in self.cell.columns else ()

    @cached_property
    def schema(self) -> Draft202012Validator:
        """What checks its run.json."""
        return run_schema(self.cell, self.experiment.parameters)

    def text(self, key: Key) -> str:
        """Return the cell of that key in words."""
        return str(self._table.keyed(*key))

    def key(self, cell: Mapping[str, Any]) -> Key:
        """Return what identifies a cell of run.json."""
        return self._table(cell).key


class StoredRun:
    """One whole run: its folder, its run.json and how to read them."""

    def __init__(self, path: Path, document: dict[str, Any], layout: Layout) -> None:
        self.path, self.document, self.experiment, self.layout = path, document, layout.experiment.name, layout
        self.name = path.name
        self.run_id = str(document["run_id"])
        self.scenario = str(document["scenario"])
        self.fidelity = str(document["fidelity"])
        self.valid = bool(document["valid"])
        self.invalid_because = "; ".join(document["invalid_because"])
        self.parameters: dict[str, Any] = document["parameters"]
        self.load_settings: dict[str, str] = self.parameters.get("load_settings", {})
        self.repetitions = int(self.parameters.get("repetitions", 0))
        self.messages = int(self.parameters.get("messages", 0))
        environment = document["environment"]
        self.boot = str(environment.get("boot") or NO_ID)
        cpu, kernel, machine = (str(environment.get(name) or "") for name in ("cpu", "kernel", "machine"))
        self.machine_text = f"{cpu or None}, {int(environment['cores'])} cores, kernel {kernel}"
        # Two machines of one model are two machines.
        if machine:
            self.machine_text += f", machine {f'of boot {self.boot}' if machine == UNKNOWN else machine}"
        # The code that measured it; the commit where nobody has its digest.
        self.code = self.conditions.get("code") or str(environment.get("revision", NO_ID))

    def same_machine(self, other: StoredRun) -> bool:
        """Return whether both were made on one machine: one boot is of one, whatever a run calls it."""
        return self.machine_text == other.machine_text or NO_ID != self.boot == other.boot

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """What is not as usual, and sets it apart from the published set-up: ("ADAPTER=ftdi-16",), as in params.env.

        Factors, and whatever a fidelity sets. Of every experiment, no claim rests on such a run but by its name.
        """
        return (*self._unusual(lambda one: one.factor or isinstance(one.default, Mapping)), *own_file(self.document))

    @cached_property
    def overrides(self) -> tuple[str, ...]:
        """What a fidelity sets and this run has otherwise, as params.env writes it.

        Also options of a published load, and a Compose file of one's own.
        """
        published = {name: rule.published for load in loads().values() for name, rule in load.settings.items()}
        options = self.load_settings.items() if self.layout.has_published_load else ()
        load = (f"{name}={value}" for name, value in options if value != published.get(name))
        return (*self._unusual(lambda one: isinstance(one.default, Mapping)), *load, *own_file(self.document))

    def _unusual(self, asked: Callable[[Param], bool]) -> tuple[str, ...]:
        if self.fidelity not in FIDELITIES:
            return ()
        return tuple(
            f"{one.variable_of(name)}={as_text(self.parameters[name])}"
            for name, one in self.layout.experiment.parameters.params().items()
            if asked(one) and name in self.parameters
            if not one.is_usual(self.parameters[name], self.fidelity, self.scenario)
        )

    @cached_property
    def context(self) -> dict[str, str]:
        """What must agree before two runs may be compared: name and value of each parameter and of where it ran."""
        params = self.layout.experiment.parameters.params()
        asked = {name: value for name, value in self.parameters.items() if name != "load_settings"}
        matter = {name: as_text(value) for name, value in asked.items() if name not in params or params[name].matters}
        revision = as_text(self.document["environment"].get("revision", NO_ID))
        return {**matter, "machine": self.machine_text, "revision": revision, "boot": self.boot}

    @cached_property
    def conditions(self) -> dict[str, str]:
        """What it ran on and with, as far as it is known: machine, engine, code, load, versions, whose images.

        Own images are of the run's code.
        """
        environment = self.document["environment"]
        found = {name: str(environment.get(name) or UNKNOWN) for name in (*SHARED, "engine", "code")}
        found |= {f"load {name}": value for name, value in self.load_settings.items()}
        found |= {f"{part} version": str(one) for part, one in environment.get("versions", {}).items()}
        images = {
            f"{name} image": "of this lab" if one["own"] else str(one["id"]).removeprefix("sha256:")[:12]
            for name, one in environment.get("images", {}).items()
            if "own" in one and name not in OBSERVERS
        }
        program = self.document.get("own_client", {}).get("sha256")
        own = {"own client": str(program)[:12]} if program else {}
        return {**{name: one for name, one in found.items() if one and not one.startswith(NO_ID)}, **images, **own}

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

    A name in `about` means all that begin with it, so a load includes its options. Conditions are compared where both
    runs know them; the same code makes two commits one.
    """
    first, second = {**one.context, **one.conditions}, {**other.context, **other.conditions}
    ignored = one.conditions.keys() ^ other.conditions.keys()
    ignored |= {"machine"} if one.same_machine(other) else set()
    ignored |= {"revision"} if "code" in one.conditions.keys() & other.conditions.keys() else set()
    names = [name for name in {**first, **second} if name not in ignored and not name.startswith(tuple(about))]
    apart = [name for name in names if first.get(name) != second.get(name)]
    labels = (one.scenario, other.scenario) if one.scenario != other.scenario else (one.run_id, other.run_id)
    return [
        f"{name.upper() if name in one.parameters or name in other.parameters else name} "
        f"({labels[0]}: {first.get(name, 'not set')}, {labels[1]}: {second.get(name, 'not set')})"
        for name in apart
    ]


@dataclass(eq=False)
class Unusable(Exception):
    """A folder without a usable run: its fault, what follows from it, and the experiment whose report names it."""

    name: str
    kind: str
    meaning: str
    experiment: str = ""

    def __str__(self) -> str:
        return f"not used: {self.name} ({self.kind}). {self.meaning}"


@dataclass
class Selection:
    """The runs a report is about, those it leaves out and why."""

    runs: list[StoredRun] = field(default_factory=list)
    unusable: list[Unusable] = field(default_factory=list)
    set_aside: list[tuple[StoredRun, str]] = field(default_factory=list)


def run_folders(results: Path, named: Sequence[str] = ()) -> list[Path]:
    """Return the folders of `named` (run ids or paths), or all folders of `results`. LabError if there is none."""
    if not named and not results.is_dir():
        raise UsageError(f"There is no folder {results}.", "Make a run first: ./lab run scenario1")
    if not named:
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
    name = [(int(number or -1), word) for number, word in re.findall(r"(\d+)|(\D+)", run.scenario)]
    return name, run.fidelity != "thesis", run.run_id


def read_run(path: Path, experiments: Experiments, *, any_name: bool = False) -> StoredRun | Unusable:
    """Return the run in a folder, or what that folder is instead.

    The folder has the name of its run, unless it may have `any_name`.
    """
    try:
        run = _run(path, experiments)
        if run.run_id != path.name and not any_name:
            return run.damaged(f"Its run.json is of the run {run.run_id}: give the folder that name.")
        return run
    except Unusable as unusable:
        unusable.experiment = unusable.experiment or experiments.default
        return unusable
    except Exception as error:
        # Nothing in one folder may end the report on the others.
        meaning = f"run.json cannot be read ({type(error).__name__}: {str(error)[:LONGEST]}): run it again."
        return Unusable(path.name, "damaged", meaning, experiments.default)


def _run(path: Path, experiments: Experiments) -> StoredRun:
    document = _document(path)
    try:
        experiment = experiments.of(document)
    except KeyError as unknown:
        raise Unusable(path.name, "experiment", f"This lab has no experiment {unknown.args[0]}.") from None
    layout = Layout(experiment, str(document.get("scenario")))
    meaning = _damage(document, layout)
    if not meaning and not (path / "samples.csv").is_file():
        meaning = "samples.csv is missing: nothing in run.json can be checked, and nothing has an interval."
    if meaning:
        raise Unusable(path.name, "damaged", meaning, experiment.name)
    return StoredRun(path, document, layout)


def _document(path: Path) -> dict[str, Any]:
    """Return what run.json holds. Raises Unusable if it is no document of this lab, and whatever reading it raises."""
    if path.name.startswith("."):
        raise Unusable(path.name, "in progress", "A run that is being made, or one whose controller was killed.")
    if not (path / "run.json").is_file():
        if not (path / "samples.csv").is_file():
            raise Unusable(path.name, "foreign", "No folder of a run: neither run.json nor samples.csv.")
        raise Unusable(
            path.name, "interrupted", "It never ended: its samples are kept, and interrupted.json may say why."
        )
    size = (path / "run.json").stat().st_size
    if size > MOST_RUN_BYTES:
        meaning = f"run.json has {size / 2**20:.1f} MiB, and {MOST_RUN_BYTES >> 20} MiB are the most of a run."
        raise Unusable(path.name, "damaged", meaning)
    # NaN and Infinity are no JSON, but Python writes them: a figure without a value.
    text = (path / "run.json").read_text(encoding="utf-8")
    document = json.loads(text, parse_constant=lambda _name: None, parse_float=_finite, parse_int=_whole)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA or not isinstance(document, dict):
        meaning = f"run.json has schema {schema!r}, this lab reads {SCHEMA}: update it for newer runs."
        raise Unusable(path.name, "foreign", meaning)
    return document


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= MOST_DIGITS else None


def _damage(document: dict[str, Any], layout: Layout) -> str:
    if mistake := fault(document, layout.schema):
        return f"{mistake} in run.json: run it again."
    for cell in document["cells"]:
        counted = sum(cell.get(count, 0) for count in layout.outcomes.values())
        if cell[layout.total] != counted:
            return f"Its counts do not add up: {cell[layout.total]} {layout.total}, {counted} accounted for."
    keys = [layout.key(cell) for cell in document["cells"]]
    return "A cell is listed twice in run.json: run it again." if len(set(keys)) < len(keys) else ""
