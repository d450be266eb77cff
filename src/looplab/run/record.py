"""Where one run is kept while it is measured: its rows in memory, its folder on disk, the state the exporter reads."""

import contextlib
import json
import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from looplab.errors import LabError, MachineError
from looplab.run.accounting import Columns
from looplab.run.folder import SCHEMA, RunFolder, count_samples
from looplab.run.quiet import reasons as reasons_not_quiet
from looplab.run.samples import SampleStore
from looplab.spec.parameters import RunParameters
from looplab.spec.reader import as_text
from looplab.system.lock import Held, hold
from looplab.system.machine_facts import OWN, OWN_FILE, ClockDistances, describe, machine_state
from looplab.treatments.judgement import Treatment, judge_clocks, reasons

# In the live folder; who holds the lock is the only process that may replace the live rows.
LOCK, STATE, ROWS = "run.lock", "state.json", "samples.bin"
# Compose hands in what other services get, so that a run can be repeated.
_LINK = ("LINK_DELAY_MS", "LINK_JITTER_MS", "LINK_DISTRIBUTION", "LINK_LOSS_PERCENT")
# Reports progress as (event, facts) to a person or to ./lab.
Say = Callable[..., None]


class Place(NamedTuple):
    """Where a run goes: the folder results/, the folder that the exporter reads along (or none), who is informed."""

    results: Path
    live: Path | None
    say: Say


@dataclass(frozen=True)
class File:
    """One CSV file of a run: its first line, and `lines(store, rows)` without line ends."""

    name: str
    header: str
    lines: Callable[[Columns, range], Iterable[str]]


class Record:
    """One run's rows, folder and live state.

    `columns` are the experiment's own beside looplab.run.samples.COLUMNS. The first of `files` grows while the run is
    measured.
    """

    def __init__(
        self,
        parameters: RunParameters,
        place: Place,
        columns: tuple[str, ...],
        files: Sequence[File],
        experiment: str,
    ) -> None:
        self.say = place.say
        # Hold it as long as the run: a second controller would empty this one's live rows.
        self._lock = _alone(place.live, parameters.scenario) if place.live else None
        self.store = _store(parameters.samples, place.live, columns)
        self.token = secrets.token_hex(4)
        # Versions that foreign programs (broker, database) report, by their part.
        self.versions: dict[str, str] = {}
        self._parameters = parameters
        self._live = place.live
        self._files = files
        self._experiment = experiment
        self._folder = RunFolder.begun(
            place.results, parameters.scenario, parameters.samples, {file.name: file.header for file in files}
        )
        self.say("begun", run_id=self._folder.run_id)
        self._environment = describe(os.environ.get("LOOPLAB_ENVIRONMENT", ""))
        self._command_line = str(self._environment.pop("command_line", "")) or by_hand(parameters, os.environ)
        self._treatments: list[dict[str, Any]] = []
        self._begun_s = time.monotonic()
        self._clocks = ClockDistances.now()

    @property
    def busy_wanted(self) -> bool:
        """Whether somebody asked for a machine that is not quiet (`--busy`)."""
        return bool(self._environment.get("busy_wanted"))

    def begin(self) -> None:
        """Note that sending begins now."""
        self._clocks = ClockDistances.now()
        self._begun_s = time.monotonic()

    def settle(self, parameters: RunParameters) -> None:
        """Take parameters of which the run itself has measured some; they have as many samples as before."""
        self._parameters = parameters

    def append(self, rows: range) -> None:
        """Write the lines of `rows` and have them on disk when this returns."""
        self._folder.append(self._files[0].name, self._files[0].lines(self.store, rows))

    def progress(self, cell: str, answered: int, done: int, seconds_left: float) -> None:
        """Report that `done` messages of the run are behind, `answered` of those of `cell`."""
        self.say(
            "repetition",
            scenario=self._parameters.scenario,
            cell=cell,
            messages_done=done,
            messages=self._parameters.samples,
            answered=answered,
            seconds_left=round(seconds_left, 1),
            elapsed_s=round(time.monotonic() - self._begun_s, 1),
        )

    def state(
        self, state: str, treatments: Sequence[Treatment] = (), more: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Write what the exporter needs to read the live rows; between cells only. Keeps the last `treatments`.

        `more` is what an experiment without live rows has measured so far, or whether a finished run is valid.
        """
        if treatments:
            self._treatments = list(map(asdict, treatments))
        if self._live is None:
            return
        document = {
            "experiment": self._experiment,
            "state": state,
            "run_id": self._folder.run_id,
            "parameters": self._parameters.as_json(),
            "treatments": self._treatments,
            **(more or self._planned()),
        }
        # The volume may be full: Grafana then shows an older state, and the run keeps what it measures.
        with contextlib.suppress(OSError):
            write_state(self._live, document)

    def _planned(self) -> dict[str, Any]:
        """Return what the exporter needs to find the cells of live rows."""
        cells = [cell.key_document for cell in self._parameters.cells]
        return {"planned_cells": cells, "longest_gap_ms": self._parameters.longest_gap_ms}

    def document(
        self, treatments: Sequence[Treatment], contents: Mapping[str, Any], faults: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return run.json: the frame of every run, the experiment's `contents` and its `interference` among them.

        The run is INVALID by a required treatment that was not found as wanted, or by any of `faults`.
        """
        clocks = ClockDistances.now()
        treatments = [*treatments, *judge_clocks(self._clocks, clocks)]
        wrong = [*reasons(treatments), *faults]
        stolen_s = [one["steal_s"] for one in contents["interference"]]
        environment = {
            **self._environment,
            "changed": {name: now for name, now in machine_state().items() if now != self._environment[name]},
            "suspended_s": max(0.0, round(clocks.suspended_s - self._clocks.suspended_s, 3)),
            "versions": self.versions,
            "steal_s": round(sum(stolen_s), 2) if None not in stolen_s else None,
        }
        disturbed = reasons_not_quiet({**contents, "environment": environment})
        return {
            "schema": SCHEMA,
            "experiment": self._experiment,
            "run_id": self._folder.run_id,
            "scenario": self._parameters.scenario,
            "fidelity": self._parameters.fidelity,
            "valid": not wrong,
            "invalid_because": wrong,
            "quiet": not disturbed,
            "not_quiet_because": disturbed,
            "parameters": self._parameters.as_json(),
            "command_line": self._command_line,
            "token": self.token,
            **contents,
            "treatments": list(map(asdict, treatments)),
            "environment": environment,
        }

    def rewrite(self) -> None:
        """Write every file again: late answers arrive after their lines were written."""
        for file in self._files:
            self._folder.rewrite(file.name, file.header, file.lines(self.store, range(self._parameters.samples)))

    def finish(self, document: dict[str, Any]) -> None:
        """Store run.json and give the folder its name."""
        self._folder.finish(document)
        self._treatments = document["treatments"]
        self.state("finished", more={**self._planned(), "valid": document["valid"]})

    def keep(self, why: str) -> None:
        """Keep every sample of an interrupted run; nothing is left of one that sent nothing."""
        # On a full disk, what was appended on the way stays as it is, and the folder still gets its name.
        with contextlib.suppress(LabError):
            self.rewrite()
        with contextlib.suppress(LabError):
            self._folder.interrupt(why)
        self.state("interrupted")
        if samples := count_samples(self._folder.path):
            self.say("interrupted", path=self._folder.path.name, why=why, samples=samples)


def read_state(live: Path) -> dict[str, Any]:
    """Return what the last run wrote for the exporter, {} if there is nothing to read."""
    try:
        state = json.loads((live / STATE).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(live: Path, state: Mapping[str, Any]) -> None:
    """Replace it as a whole: the exporter may be reading it."""
    fresh = live / f"{STATE}.new"
    fresh.write_text(json.dumps(state))
    fresh.replace(live / STATE)


def by_hand(parameters: RunParameters, environment: Mapping[str, str]) -> str:
    """Return the command that repeats a run of plain Compose: what was set in the shell or in .env stands before it."""
    own = {OWN: environment[OWN]} if environment.get(OWN, "") not in ("", OWN_FILE) else {}
    images = (name for name in sorted(environment) if name.endswith("_IMAGE"))
    handed_in = {name: environment[name] for name in (*_LINK, *images) if name in environment}
    shell = _unusual(parameters) | own | handed_in
    words = (f"{name}={shlex.quote(value)}" for name, value in shell.items())
    return " ".join([*words, "docker compose --profile", parameters.scenario, "up"])


def _unusual(parameters: RunParameters) -> dict[str, str]:
    """Return by variable what a person may set and this run has otherwise than its scenario's fidelity."""
    own = {
        one.variable_of(name): as_text(getattr(parameters, name))
        for name, one in parameters.params().items()
        if one.option or one.factor or isinstance(one.default, Mapping)
        if not one.is_usual(getattr(parameters, name), parameters.fidelity, parameters.scenario)
    }
    of_load: Mapping[str, str] = getattr(parameters, "load_settings", {})
    return own | {name: one for name, one in of_load.items() if one != parameters.factors()[name].default}


def _alone(live: Path, scenario: str) -> IO[str]:
    """Return the lock of the only controller that measures with this folder. Raises MachineError if there is one."""
    try:
        with MachineError.of_os(f"Cannot hold {live / LOCK}", "Run `./lab down`, then try again."):
            return hold(live / LOCK, scenario)
    except Held as other:
        raise MachineError(
            f"Another run of this lab goes on: {other}. {scenario} was not started.",
            "Wait until it has ended, or end it with `./lab down`. What was started beside it disturbs it.",
        ) from None


def _store(samples: int, live: Path | None, columns: tuple[str, ...]) -> SampleStore:
    remedy = "Lower MESSAGES or REPETITIONS, or enlarge the volume `live` in compose/lab.yaml."
    with MachineError.of_os(f"Cannot hold {samples:,} live samples in {live or 'memory'}", remedy):
        return SampleStore(samples, live / ROWS if live else None, columns)
