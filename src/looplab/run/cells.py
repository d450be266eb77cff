"""A run that measures its cells one after the other: what the controllers of most experiments share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from looplab.errors import EXIT_USAGE, LabError
from looplab.run import quiet
from looplab.run.accounting import Columns
from looplab.run.document import cell_document, samples_file
from looplab.run.life import Run, wait_for
from looplab.run.record import File, Place, Record
from looplab.spec.cell import Cell
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import RunParameters
from looplab.spec.roles import Role
from looplab.treatments.judgement import Treatment, judge_policy, judge_process, unverified
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, TreatmentsClient

P = TypeVar("P", bound=RunParameters)
C = TypeVar("C", bound=Cell)


class CutShort(Exception):
    """No further cell can be measured; says why. What was measured is stored, the run is INVALID."""


@dataclass
class Measured(Generic[C]):
    """One cell as far as it was measured: what run.json holds of it beside its samples, and why it is INVALID."""

    cell: C
    more: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def entry(measured: Measured[Any], columns: Columns, rows: range) -> dict[str, Any]:
    """Return one entry of `cells` in run.json."""
    state = {"valid": not measured.faults, "invalid_because": measured.faults}
    return cell_document(measured.cell, columns, rows, {**measured.more, **state})


class CellRun(Run, Generic[P, C]):
    """An experiment gives `experiment` and `measure_cell`, and overrides the steps that differ.

    `columns` are those of its live rows beside looplab.run.samples.COLUMNS.
    """

    experiment: ClassVar[Experiment]
    columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, parameters: P, place: Place) -> None:
        name = self.experiment.name
        self.parameters = parameters
        self.record = Record(parameters, place, self.columns, self.files(), {"experiment": name})
        self.client = TreatmentsClient([*self.roles(), *(load.role for load in loads().values())])
        self.scans: list[Scan | None] = []
        self.measured: list[Measured[C]] = []
        self._cut_short = ""
        self._found_last: list[Treatment] = []
        self._reported = (-1, -1)

    @abstractmethod
    def measure_cell(self, index: int, cell: C) -> Measured[C]:
        """Send the messages of a cell. Raises CutShort, LabError, Interrupted."""

    def prepare(self) -> None:
        """Wait for the parts, warm up. Raises LabError, Interrupted."""
        self.scan()

    def conclude(self, index: int) -> None:
        """Store the samples of a cell, and have the treatments read."""
        self.record.append(self.parameters.rows(index))
        self.scan()

    def roles(self) -> Sequence[Role]:
        """Return its containers as the treatments service knows them."""
        return self.experiment.roles

    def judge(self, scans: Sequence[Scan]) -> list[Treatment]:
        """Return every treatment, by the readings of the live processes before the first cell and after each."""
        roles = [role.name for role in self.experiment.roles if not role.optional]
        processes = [judge_process(scans, role) for role in roles]
        return [*processes, *(judge_policy(scans, role, 0) for role in roles)]

    def files(self) -> list[File]:
        """Return its CSV files; samples.csv comes first."""
        return [samples_file(self.experiment.table(self.parameters.scenario), self.parameters)]

    def document(self, measured: Measured[C], rows: range) -> dict[str, Any]:
        """Return one entry of `cells` in run.json."""
        return entry(measured, self.record.store, rows)

    def measure(self) -> None:
        p, record = self.parameters, self.record
        self.prepare()
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.total_s))
        record.begin()
        for index, cell in enumerate(self.cells()):
            record.state("running", self.treatments(), self.live_state())
            try:
                self.measured.append(self.measure_cell(index, cell))
            except CutShort as why:
                self._cut_short = str(why)
                break
            self.progress(index, cell, len(p.rows(index)))
            self.conclude(index)
        self._found_last = self.finish()
        record.state("running", self.treatments(), self.live_state())

    def finish(self) -> list[Treatment]:
        """Return what can be judged only when every cell is measured."""
        return []

    def live_state(self) -> Mapping[str, Any]:
        """Return what the live state holds of a run without live rows: the cells measured so far. {}: it has rows."""
        return {}

    def cells(self) -> Iterable[C]:
        """Return the cells in the order in which they are measured."""
        cells: Iterable[Any] = self.parameters.cells
        return cells

    def treatments(self) -> list[Treatment]:
        if not self.scans:
            return []
        good = [scan for scan in self.scans if scan is not None]
        return [*(unverified(self.scans, self.client.fault) or self.judge(good)), *self._found_last]

    def contents(self) -> Mapping[str, Any]:
        places = {cell.key: at for at, cell in enumerate(self.parameters.published_cells)}
        order = sorted(range(len(self.measured)), key=lambda index: places[self.measured[index].cell.key])
        cells = [self.document(self.measured[index], self.parameters.rows(index)) for index in order]
        return {"cells": cells, "noise_floor": quiet.noise_of_run(self.scans)}

    def faults(self) -> Sequence[str]:
        """Return why cells are INVALID, and why not every cell was measured."""
        reasons = [f"{one.cell}: {why}" for one in self.measured for why in one.faults]
        if self._cut_short:
            reasons.append(f"ended after {len(self.measured)} of {len(self.parameters.cells)} cells: {self._cut_short}")
        return [*reasons, *self.foreign_loads()]

    def foreign_loads(self) -> list[str]:
        """Return why a run without any load is INVALID if one ran: that of another scenario, started beside it."""
        seen = {name for scan in self.scans if scan for name, found in scan["roles"].items() if found["processes"]}
        return [] if hasattr(self.parameters, "load") else [f"{name} load: running" for name in loads().keys() & seen]

    def wait_for_part(self, what: str, check: Callable[[], object]) -> None:
        """Wait until `check` raises no LabError. Raises its last one after PARTS_TIMEOUT_S, wrong use at once."""
        self.record.say("waiting", what=what)
        errors: list[LabError] = []

        def ready() -> bool:
            try:
                check()
            except LabError as error:
                if error.exit_code == EXIT_USAGE:
                    raise
                errors.append(error)
                return False
            return True

        wait_for(ready, self.parameters.parts_timeout_s, lambda: errors[-1])

    def scan(self) -> Scan | None:
        """Have the treatments read while nothing is sent."""
        self.scans.append(self.client.scan({}))
        return self.scans[-1]

    def progress(self, index: int, cell: C, done: int) -> None:
        """Report that `done` messages of a cell are behind, once."""
        if self._reported == (index, done):
            return
        self._reported, first = (index, done), self.parameters.rows(index).start
        answered = sum(at >= 0 for at in self.record.store["received_ns"][first : first + done].tolist())
        self.record.progress(str(cell), answered, first + done, self.parameters.left_s(first + done))
