"""One run of twin: waits for database and instance, then sends, drains and judges cell by cell."""

import os
from collections.abc import Sequence
from typing import Any

from looplab.errors import LabError, MachineError, UsageError
from looplab.experiments.twin import EXPERIMENT, NAME, TwinCell
from looplab.experiments.twin.counters import HEADER
from looplab.experiments.twin.database import Database, conninfo
from looplab.experiments.twin.document import Measured, faults, files, measured_cell
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.search import Step, judge_step, limit, search
from looplab.experiments.twin.sending import INSTANCE, Parts, Sending, Sent, clear, new_token
from looplab.experiments.twin.treatments import judge, used_hosts
from looplab.experiments.twin.usage import usage
from looplab.experiments.twin.window import windows
from looplab.run.life import Run, wait_for
from looplab.run.record import File, Place, Record
from looplab.treatments import noise
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads import loads
from looplab.treatments.looks import Look, TreatmentsClient


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: TwinParameters, place: Place) -> None:
        if place.live is None:
            raise UsageError("LIVE_DIR is not set.", "Set it to a folder that the twin instance shares.")
        self.parameters = parameters
        self.broker = used_hosts(parameters)[0]
        self._lines: list[str] = []
        counters = File("sys.csv", HEADER, lambda _columns, _rows: self._lines)
        self.record = Record(parameters, place, ("copies",), [*files(parameters), counters], {"experiment": NAME})
        self._client = TreatmentsClient([*EXPERIMENT.roles, *(load.role for load in loads().values())])
        self._database = Database(conninfo(parameters, dict(os.environ)))
        self._looks: list[Look | None] = []
        self._measured: list[Measured] = []
        self._started: set[str] = set()
        self._windows: list[Treatment] = []

    def measure(self) -> None:
        """Wait for the parts, then measure every cell."""
        p, record = self.parameters, self.record
        record.say("waiting", what="database and twin instance")
        wait_for(self._database.answers, p.parts_timeout_s, _no_database)
        wait_for(self._instance_answers, p.parts_timeout_s, _no_instance)
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.whole_s))
        record.begin()
        parts = Parts(p, record, self._database, self._look, self._lines)
        for index, cell in enumerate(p.cells):
            record.state("running", self.treatments())
            self._progress(index, cell)
            self._measured.append(self._measure(parts, index, cell))
            record.append(p.rows(index))
            record.state("running", self.treatments())
        record.versions["database"] = self._database.facts().version
        # Last, for its messages would count in the brokers' own counters.
        self._windows = windows(used_hosts(p), p.max_inflight)

    def treatments(self) -> list[Treatment]:
        if not self._measured:
            return []
        return [*judge(self.parameters, self._looks, self._database.facts(), self._started), *self._windows]

    def contents(self) -> dict[str, Any]:
        p, store = self.parameters, self.record.store
        cells = [measured_cell(p, store, p.rows(at), measured) for at, measured in enumerate(self._measured)]
        return {"cells": cells, "noise_floor": noise.over(self._looks)}

    def faults(self) -> Sequence[str]:
        """Return why cells are INVALID."""
        return faults(self._measured)

    def close(self) -> None:
        self._database.close()

    def _measure(self, parts: Parts, index: int, cell: TwinCell) -> Measured:
        p = self.parameters
        self._started.add(self._database.facts().started)
        measured = self._search(parts, index, cell) if p.search else self._send(parts, index, cell)
        self._started.add(self._database.facts().started)
        return measured

    def _send(self, parts: Parts, index: int, cell: TwinCell) -> Measured:
        p = self.parameters
        sending = Sending(parts, index, cell, self.record.token)
        sent = sending.make(p.rows(index), round(cell.interval_ms * 1e6), lambda: self._progress(index, cell))
        return Measured(cell, counts(sent), usage(p, cell, sent), sent.faults)

    def _search(self, parts: Parts, index: int, cell: TwinCell) -> Measured:
        """Search the highest sustained rate; the cell's rows are those of the last step."""
        p, store, rows = self.parameters, self.record.store, self.parameters.rows(index)
        made: list[Sent] = []

        def attempt(rate_per_s: float) -> tuple[Step, dict[str, Any]]:
            clear(store, rows)
            self.record.say("step", cell=cell.title, rate_per_s=rate_per_s)
            count = min(len(rows), max(2, round(rate_per_s * p.step_s)))
            sending = Sending(parts, index, cell, new_token())
            sent = sending.make(rows[:count], round(1e9 / rate_per_s), lambda: self._progress(index, cell))
            made.append(sent)
            step = judge_step(p, store, sent.rows, rate_per_s)
            return step, limit(p, cell, sent, step)

        found = search(p, attempt)
        sent = made[-1]
        faults = [fault for one in made for fault in one.faults]
        if not found["limit_per_s"]:
            faults.append("no rate was sustained")
        return Measured(cell, counts(sent), {**usage(p, cell, sent), **found}, faults)

    def _look(self) -> Look | None:
        """Have the treatments verified while the cell's connections are there, and never while it sends."""
        self._looks.append(self._client.look({}))
        return self._looks[-1]

    def _instance_answers(self) -> bool:
        try:
            INSTANCE.ask(f"{self.parameters.instance_url}/state", "GET")
        except LabError:
            return False
        return True

    def _progress(self, index: int, cell: TwinCell) -> None:
        p, rows, state = self.parameters, self.parameters.rows(index), self.record.store["state"]
        done = sum(value > 1 for value in state[rows.start : rows.stop].tolist())
        left_s = p.whole_s * (1 - (index + done / len(rows)) / len(p.cells))
        self.record.progress(cell.title, done, rows.start + done, left_s)


def counts(sent: Sent) -> dict[str, int]:
    """Return a cell's counts that belong to no single row, as run.json names them."""
    return {
        "malformed": sent.counted("malformed") + sent.counted("foreign"),
        "disconnects": sent.disconnects,
        "worker_restarts": sent.counted("starts") - len(sent.workers),
        "database_errors": sent.counted("database_errors"),
        "unstamped": sent.unstamped,
    }


def _no_database() -> LabError:
    return MachineError("The database does not answer.", "See `docker compose logs twin-database`.")


def _no_instance() -> LabError:
    return MachineError("The twin instance does not answer.", "See `docker compose logs` of the instance.")
