"""One run of middleware: provisions the devices once, then measures repetition after repetition of every cell."""

import os
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.middleware import EXPERIMENT, LoadCell, document
from looplab.experiments.middleware.agent import HOST_TOKEN
from looplab.experiments.middleware.document import Trial
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.parts import MiddlewareParts, OutOfMemory
from looplab.experiments.middleware.systems import load
from looplab.experiments.middleware.trial import Measurement, largest, measure_limit
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
        super().__init__(replace(parameters, containers=(True,)) if self._no_host else parameters, place, roles)
        self.live_state = document.live(self.parameters.requests, [])
        self._starved: OutOfMemory | None = None
        self._parts = MiddlewareParts(self.parameters)

    def files(self) -> list[File]:
        return document.files(self.parameters, self._trials)

    def prepare(self) -> None:
        """Wait for the parts, find the limit, provision the devices."""
        for one in self._parts.all():
            self.wait_for_part(one.name, one.check)
        self._find_limit()
        self._provision()
        self.scan()

    def measure_cell(self, index: int, cell: LoadCell) -> Trial:
        self.progress(index, cell, 0)
        p, store, first = self.parameters, self.record.store, self.parameters.rows(index).start

        def second(running: Trial) -> None:
            row = first + running.seconds - 1
            store["received_ns"][row], store["state"][row] = perf_counter_ns(), ANSWERED
            self.record.state("running", more=document.live(p.requests, [*self._trials, running]))

        name, repetition = f"{self.record.token}-{index}", index // len(p.cells)
        measurement = Measurement(p, self._parts, cell, repetition, name, second)
        trial = measurement.not_started(self._starved, starved=True) if self._starved else measurement.run()
        self._trials.append(trial)
        return trial

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
        cell = largest(p.cells)
        self.record.say("waiting", what=f"limit of this machine: {cell.placement}")
        try:
            limit_per_s = measure_limit(self._parts, cell, p, self.record.token)
        except OutOfMemory as error:
            what = f"Out of memory while the limit of this machine was measured: {error.message}"
            raise MachineError(what, "Raise MEMORY_LIMIT_MB, or give DEVICES as numbers.") from None
        self.parameters = p.at_limit(limit_per_s)
        self.record.settle(self.parameters)
        loads = ", ".join(map(str, self.parameters.devices))
        self.record.say("text", text=f"  limit: {limit_per_s:.0f} requests a second; loads: {loads} devices")

    def _provision(self) -> None:
        """Register the devices of the largest cell once: they stay in the database."""
        p = self.parameters
        # A container may have a memory limit, and bare metal has none.
        boxed = all(cell.container for cell in p.cells)
        first = LoadCell.keyed(boxed, False, 1, 1, 1)
        self.record.say("waiting", what=f"{p.system} to know {max(p.devices)} devices")
        try:
            self._parts.start(first)
            self._parts.provision(first, max(p.devices), self.record.token)
        except OutOfMemory as error:
            # Lack of memory is a result: every repetition is recorded without an answer.
            self._starved = error


Controller = MiddlewareController
