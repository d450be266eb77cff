"""A run that measures its cells one after the other: what the controllers of most experiments share."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from looplab.errors import EXIT_USAGE, LabError
from looplab.run import quiet
from looplab.run.accounting import Columns
from looplab.run.document import cell_document, files_of
from looplab.run.record import File, Place, Record
from looplab.spec.cell import Cell
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import RunParameters
from looplab.spec.roles import Role
from looplab.treatments import link
from looplab.treatments.judgement import Treatment, judge_policy, judge_process, unverified
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, TreatmentsClient

P = TypeVar("P", bound=RunParameters)
C = TypeVar("C", bound=Cell)
# Between two checks of what a run waits for.
_PAUSE = partial(time.sleep, 0.2)


class CutShort(Exception):
    """No further cell can be measured; says why. What was measured is stored, the run is INVALID."""


@dataclass
class CellResult(Generic[C]):
    """One cell as far as it was measured: what run.json holds of it beside its samples, and why it is INVALID."""

    cell: C
    more: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        """Return why the run is INVALID by this cell."""
        return [f"{self.cell}: {why}" for why in self.faults]


def entry(measured: CellResult[Any], columns: Columns, rows: range) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    state = {"valid": not measured.faults, "invalid_because": measured.faults}
    return cell_document(measured.cell, columns, rows, {**measured.more, **state})


class CellRun(ABC, Generic[P, C]):
    """The controller of an experiment: it gives `experiment` and `measure_cell`, and overrides the steps that differ.

    These are `files`, `prepare`, `conclude`, `judge`, `document`, `contents` and `close`. `columns` are those of its
    live rows beside looplab.run.samples.COLUMNS; `roles` are its containers as the treatments service knows them.
    `broker` is host and port of its broker, or of one of several, None without one. `asks` is what each scan applies
    and counts (TreatmentsClient.scan), `link_url` the emulator of a link that lasts for the run, "" for none. Without
    live rows `live_state` is what the live state holds of the cells measured so far.
    """

    experiment: ClassVar[Experiment]
    columns: ClassVar[tuple[str, ...]] = ()
    broker: tuple[str, int] | None = None
    asks: tuple[Any, ...] = ({},)
    link_url = ""

    def __init__(self, parameters: P, place: Place, roles: Sequence[Role] = ()) -> None:
        self.parameters, self.roles = parameters, roles or self.experiment.roles
        self.record = Record(parameters, place, self.columns, self.files(), self.experiment.name)
        self.client = TreatmentsClient([*self.roles, *(load.role for load in loads().values())])
        self.scans: list[Scan | None] = []
        self.measured: list[CellResult[C]] = []
        # By scan: the link's state.
        self.links: list[dict[str, Any]] = []
        # By cell: the scans before and after it, and what others took of the machine meanwhile.
        self.around: list[tuple[Scan | None, Scan | None]] = []
        self.interference: list[dict[str, Any]] = []
        self.live_state: Mapping[str, Any] = {}
        self._cut_short = ""
        self._reported = (-1, -1)

    @abstractmethod
    def measure_cell(self, index: int, cell: C) -> CellResult[C]:
        """Send the messages of a cell. Raises CutShort, LabError, Interrupted."""

    def files(self) -> list[File]:
        """Return its CSV files; samples.csv comes first."""
        return files_of(self.experiment, self.parameters)

    def prepare(self) -> None:
        """Wait for the parts, warm up. Raises LabError, Interrupted."""
        self.scan()

    def conclude(self, index: int) -> None:
        """Store the samples of a cell, and have the treatments read."""
        self.record.append(self.parameters.rows(index))
        self.scan()

    def judge(self) -> list[Treatment]:
        """Return every treatment, by the readings of the live processes before the first cell and after each."""
        roles = [role.name for role in self.experiment.roles if not role.optional]
        return self.by_scans(
            lambda scans: [
                *(judge_process(scans, role) for role in roles),
                *(judge_policy(scans, role, 0) for role in roles),
            ]
        )

    def document(self, measured: CellResult[C], rows: range) -> dict[str, Any]:
        """Return one entry of `cells` in run.json."""
        return entry(measured, self.record.store, rows)

    def contents(self) -> Mapping[str, Any]:
        """Return what run.json holds beside the frame of every run: the cells above all."""
        places = {cell.key: at for at, cell in enumerate(self.parameters.published_cells)}
        order = sorted(range(len(self.measured)), key=lambda index: places[self.measured[index].cell.key])
        cells = [self.document(self.measured[index], self.parameters.rows(index)) for index in order]
        made = {"link": self.links[-1]} if self.links else {}
        return {"cells": cells, "noise_floor": quiet.noise_of_run(self.scans), **made}

    def close(self) -> None:
        """Leave the parts as they were found."""

    def measure(self) -> None:
        """Wait for the parts, warm up, send every cell. Raises LabError, Interrupted."""
        self.prepare()
        # A run may measure some of its parameters while it prepares.
        p, record = self.parameters, self.record
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.total_s))
        record.begin()
        for index, cell in enumerate(p.schedule):
            record.state("running", self.treatments(), self.live_state)
            first = max(0, len(self.scans) - 1)
            try:
                self.measured.append(self.measure_cell(index, cell))
            except CutShort as why:
                self._cut_short = str(why)
                break
            self.progress(index, cell, len(p.rows(index)))
            self.conclude(index)
            around = self.scans[first:] or [None]
            self.around.append((around[0], around[-1]))
            self.interference.append({"cell": str(cell), **quiet.interference(*self.around[-1])})
        record.state("running", self.treatments(), self.live_state)

    def treatments(self) -> list[Treatment]:
        """Return every treatment as found so far."""
        return self.judge() if self.scans or self.measured else []

    def by_scans(self, judge: Callable[[Sequence[Scan]], list[Treatment]]) -> list[Treatment]:
        """Return what `judge` finds by the scans, or that one of them was not answered."""
        return unverified(self.scans, self.client.fault) or judge([scan for scan in self.scans if scan is not None])

    def faults(self) -> list[str]:
        """Return what makes the run INVALID beside its treatments: cells, their number, a load that nobody wanted."""
        reasons = [why for one in self.measured for why in one.reasons()]
        if self._cut_short:
            planned = len(self.parameters.schedule)
            reasons.append(f"ended after {len(self.measured)} of {planned} cells: {self._cut_short}")
        if hasattr(self.parameters, "load"):
            return reasons
        seen = {name for scan in self.scans if scan for name, found in scan["roles"].items() if found["processes"]}
        return [*reasons, *(f"{name} load: running" for name in loads().keys() & seen)]

    def wait_for_part(self, what: str, check: Callable[[], object], pause: Callable[[], object] = _PAUSE) -> None:
        """Wait until `check` raises no LabError. Raises its last one after PARTS_TIMEOUT_S, wrong use at once."""
        self.record.say("waiting", what=what)
        end_s = time.monotonic() + self.parameters.parts_timeout_s
        while True:
            try:
                check()
            except LabError as error:
                if error.exit_code == EXIT_USAGE or time.monotonic() > end_s:
                    raise
            else:
                return
            pause()

    def wait_for_quiet(self) -> None:
        """Wait for programs beside the lab, SETTLE_S at most; with `--busy` nobody waits."""
        if self.record.busy_wanted:
            return
        # It names no role, so no treatment changes.
        look, end_s = partial(TreatmentsClient([]).scan, {}), time.monotonic() + quiet.SETTLE_S
        before = self.scans[-1] if self.scans else None
        if before is None:
            before = look()
            time.sleep(quiet.LOOK_S)
        after = look()
        if quiet.disturbed(before, after):
            self.record.say("waiting", what="programs beside the lab")
        while quiet.disturbed(before, after) and time.monotonic() < end_s:
            time.sleep(quiet.LOOK_S)
            before, after = after, look()

    def scan(self) -> Scan | None:
        """Have the treatments read while nothing is sent; on a Swarm nobody can read them."""
        if self.parameters.swarm:
            return None
        if not self.scans:
            self.wait_for_quiet()
        return self.take_scan()

    def take_scan(self, **more: Any) -> Scan | None:
        """Have the treatments applied and read, and the link's emulator asked; the scan holds `more`, too."""
        seen = self.client.scan(*self.asks)
        self.scans.append(None if seen is None else {**seen, **more})
        if seen is not None and self.link_url:
            self.links.append(link.scan(self.link_url))
        return self.scans[-1]

    def progress(self, index: int, cell: C, done: int) -> None:
        """Report that `done` messages of a cell are behind, once."""
        if self._reported == (index, done):
            return
        self._reported, first = (index, done), self.parameters.rows(index).start
        answered = sum(at >= 0 for at in self.record.store["received_ns"][first : first + done].tolist())
        self.record.progress(str(cell), answered, first + done, self.parameters.left_s(first + done))


def wait_for(
    ready: Callable[[], object], timeout_s: float, fault: Callable[[], LabError], pause: Callable[[], object] = _PAUSE
) -> None:
    """Wait until `ready()`, with `pause()` between two checks. Raises `fault()` once `timeout_s` have passed."""
    end_s = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > end_s:
            raise fault()
        pause()
