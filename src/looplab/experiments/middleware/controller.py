"""One run of middleware: provisions the devices once, then measures repetition after repetition of every cell."""

import os
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from typing import Any

from looplab.experiments.middleware import EXPERIMENT, LoadCell, document
from looplab.experiments.middleware.agent import HOST_TOKEN
from looplab.experiments.middleware.document import Trial
from looplab.experiments.middleware.parameters import CONTAINER, MiddlewareParameters
from looplab.experiments.middleware.parts import MiddlewareParts
from looplab.experiments.middleware.systems import load
from looplab.experiments.middleware.trial import LIMIT_DEVICES, Measurement, largest, measure_limit
from looplab.run import quiet
from looplab.run.cells import CellRun
from looplab.run.record import File, Place
from looplab.run.samples import ANSWERED
from looplab.spec.roles import CONTROLLER
from looplab.treatments.judgement import Treatment, unread
from looplab.treatments.scans import Scan


class MiddlewareController(CellRun[MiddlewareParameters, LoadCell]):
    """The steps of one run. It measures repetitions of cells one after the other, each a Trial."""

    experiment = EXPERIMENT

    def __init__(self, parameters: MiddlewareParameters, place: Place) -> None:
        self._no_host = not all(cell.container for cell in parameters.cells) and not os.environ.get(HOST_TOKEN)
        self._trials: list[Trial] = []
        # The controller and the data services: their processes must last.
        roles = [CONTROLLER, *(role for role in EXPERIMENT.roles if role.name in load(parameters.system).data)]
        # Only ./lab starts bare metal. Without it, the run measures the containers alone.
        super().__init__(replace(parameters, where=(CONTAINER,)) if self._no_host else parameters, place, roles)
        self.live_state = document.live(self.parameters.requests, [])
        self._parts = MiddlewareParts(self.parameters)

    def files(self) -> list[File]:
        return document.files(self.parameters, self._trials)

    def prepare(self) -> None:
        """Wait for the parts, find the limit, provision the devices."""
        for one in self._parts.agents:
            self.wait_for_part(one.name, partial(one.ask, "facts"))
        self._find_limit()
        self._provision(max(self.parameters.devices), self.record.token)
        self.scan()

    def measure_cell(self, index: int, cell: LoadCell) -> Trial:
        self.progress(index, cell, 0)
        p, store, first = self.parameters, self.record.store, self.parameters.rows(index).start

        def second(running: Trial) -> None:
            row = first + len(running.loaded) - 1
            store["received_ns"][row], store["state"][row] = perf_counter_ns(), ANSWERED
            self.record.state("running", more=document.live(p.requests, [*self._trials, running]))

        trial = Trial(cell=cell, repetition=index // len(p.cells))
        self._trials.append(Measurement(p, self._parts, trial, f"{self.record.token}-{index}", second).run())
        return self._trials[-1]

    def conclude(self, index: int) -> None:
        """Store a repetition, read the treatments, and name the data services that have been restarted."""
        self.record.append(range(index, index + 1))
        before, after = self.scans[-1:], self.scan()
        if before and before[0] and after:
            again = document.restarted(before[0], after, [role.name for role in self.roles[1:]])
            trial = self._trials[-1]
            trial.dead, trial.faults = [*trial.dead, *again], [*trial.faults, *again]
        self.live_state = document.live(self.parameters.requests, self._trials)

    def scan(self) -> Scan | None:
        """Have the treatments read; bare metal, which they do not see, is no stranger."""
        if seen := super().scan():
            self.scans[-1] = seen = {**seen, "own_cpu_s": seen["own_cpu_s"] + self._parts.bare_cpu_s()}
        return seen

    def judge(self) -> list[Treatment]:
        bare = Treatment("bare metal", "measured", "left out", False, False, "only ./lab starts it on the host")
        own = [*document.judge(self._trials), *([bare] if self._no_host else [])]
        return [unread(), *own] if self.parameters.swarm else self.by_scans(lambda _scans: own)

    def contents(self) -> dict[str, Any]:
        return document.contents(self._trials, quiet.noise_of_run(self.scans))

    def close(self) -> None:
        self._parts.stop()

    def _find_limit(self) -> None:
        """Measure the limit of this machine, if the loads are shares of it."""
        p = self.parameters
        if not p.shares:
            return
        cell, name = largest(p.cells), f"{self.record.token}-limit"
        self._provision(LIMIT_DEVICES, name)
        self.record.say("waiting", what=f"limit of this machine: {cell.place}")
        limit_per_s = measure_limit(p, self._parts, cell, name)
        self.parameters = p.at_limit(limit_per_s)
        self.record.settle(self.parameters)
        loads = ", ".join(map(str, self.parameters.devices))
        self.record.say("text", text=f"  limit: {limit_per_s:.0f} requests a second; loads: {loads} devices")

    def _provision(self, count: int, name: str) -> None:
        """Register devices: they stay in the database."""
        # A container may have a memory limit, and bare metal has none.
        boxed = all(cell.container for cell in self.parameters.cells)
        first = LoadCell.keyed(boxed, False, 1, 1, 1)
        self.record.say("waiting", what=f"{self.parameters.system} to know {count} devices")
        self._parts.start(first)
        self._parts.provision(first, count, name)


Controller = MiddlewareController
