"""One run of the counter: sleep, count, sleep again."""

import time
from time import perf_counter_ns
from typing import Any

from looplab.experiments.counter import EXPERIMENT, SleepCell
from looplab.experiments.counter.parameters import CounterParameters

from looplab.run.document import cell_document, samples_file
from looplab.run.life import Run
from looplab.run.record import Place, Record
from looplab.run.samples import ANSWERED, WAITING
from looplab.treatments.judgement import Treatment, judge_policy, unverified
from looplab.treatments.looks import Look, TreatmentsClient


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: CounterParameters, place: Place) -> None:
        self.parameters = parameters
        files = [samples_file(SleepCell, parameters)]
        self.record = Record(parameters, place, (), files, {"experiment": EXPERIMENT.name})
        self._client = TreatmentsClient(EXPERIMENT.roles)
        self._looks: list[Look | None] = []

    def measure(self) -> None:
        """Sleep cell by cell."""
        p = self.parameters
        self._look()
        self.record.begin()
        for index, cell in enumerate(p.cells):
            rows = p.rows(index)
            for row in rows:
                self._sleep(row, cell.sleep_ms)
            self.record.append(rows)
            self.record.progress(str(cell), p.messages, rows.stop, p.sending_s * (1 - rows.stop / p.samples))
            self._look()

    def treatments(self) -> list[Treatment]:
        """Return every treatment as found so far."""
        good = [look for look in self._looks if look is not None]
        return unverified(self._looks) or [judge_policy(good, "controller", 0)]

    def contents(self) -> dict[str, Any]:
        """Return what run.json holds beside the frame of every run."""
        p, valid = self.parameters, {"valid": True}
        return {"cells": [cell_document(c, self.record.store, p.rows(k), valid) for k, c in enumerate(p.cells)]}

    def _sleep(self, row: int, sleep_ms: float) -> None:
        store = self.record.store
        store["state"][row] = WAITING
        store["due_ns"][row] = store["sent_ns"][row] = perf_counter_ns()
        time.sleep(sleep_ms / 1000)
        store["received_ns"][row] = perf_counter_ns()
        store["state"][row] = ANSWERED

    def _look(self) -> None:
        self._looks.append(self._client.look({}))
        self.record.state("running", self.treatments())
