"""One run of the counter: sleep, count, sleep again."""

import time
from time import perf_counter_ns
from typing import Any

from looplab.experiments.counter import EXPERIMENT
from looplab.experiments.counter.document import cell_document, files
from looplab.experiments.counter.parameters import CounterParameters

from looplab.run.life import Run
from looplab.run.record import Place, Record
from looplab.run.samples import ANSWERED, WAITING
from looplab.treatments.judgement import Treatment, judge_policy, unverified
from looplab.treatments.looks import Look, TreatmentsClient


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: CounterParameters, place: Place) -> None:
        self.parameters = parameters
        self.record = Record(parameters, place, (), files(parameters), {"experiment": EXPERIMENT.name})
        self._client = TreatmentsClient(EXPERIMENT.roles)
        self._looks: list[Look | None] = []

    def measure(self) -> None:
        """Sleep cell by cell."""
        p = self.parameters
        self._look()
        self.record.begin()
        for index, sleep_ms in enumerate(p.sleeps_ms):
            rows = p.rows(index)
            for row in rows:
                self._sleep(row, sleep_ms)
            self.record.append(rows)
            left_s = sum(p.sleeps_ms[index + 1 :]) * p.messages / 1000
            self.record.progress(f"{sleep_ms:g} ms", p.messages, rows.stop, left_s)
            self._look()

    def treatments(self) -> list[Treatment]:
        """Return every treatment as found so far."""
        good = [look for look in self._looks if look is not None]
        return unverified(self._looks) or [judge_policy(good, "controller", 0)]

    def contents(self) -> dict[str, Any]:
        """Return what run.json holds beside the frame of every run."""
        cells = enumerate(self.parameters.sleeps_ms)
        return {"cells": [cell_document(self.parameters, self.record.store, index, ms) for index, ms in cells]}

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
