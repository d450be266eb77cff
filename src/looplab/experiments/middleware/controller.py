"""One run of middleware: provisions the devices once, then measures repetition after repetition of every cell."""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.middleware import NAME, LoadCell, document
from looplab.experiments.middleware.document import Trial
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.parts import HOST_AGENT, Parts
from looplab.experiments.middleware.trial import Measurement, largest, measure_limit
from looplab.run.life import Run, wait_for
from looplab.run.record import Place, Record
from looplab.run.samples import ANSWERED
from looplab.spec.roles import CONTROLLER
from looplab.treatments import noise
from looplab.treatments.judgement import Treatment, unread, unverified
from looplab.treatments.scans import Scan, TreatmentsClient


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: MiddlewareParameters, place: Place) -> None:
        self._no_host = needs_host(parameters) and not os.environ.get(HOST_AGENT)
        # Without ./lab there is no bare metal; what is left is measured.
        self.parameters = p = replace(parameters, containers=(True,)) if self._no_host else parameters
        self._trials: list[Trial] = []
        self.record = Record(p, place, (), document.files(self._trials), {"experiment": NAME})
        self._client = TreatmentsClient([CONTROLLER])
        self._scans: list[Scan | None] = []
        self._starved: LabError | None = None
        self._parts = Parts(p)

    def measure(self) -> None:
        """Wait for the parts, provision the devices, measure every repetition."""
        self._wait_for_parts()
        p, record = self.parameters, self.record
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.total_s))
        record.begin()
        self._find_limit()
        self._provision()
        plan = self._order()
        for number, (repetition, cell) in enumerate(plan):
            self._scan()
            self._trials.append(self._measure(number, repetition, cell))
            self._note(number)
        self._scan()
        self._progress(len(plan), str(plan[-1][1]))

    def treatments(self) -> Sequence[Treatment]:
        if not self._scans and not self.parameters.swarm:
            return []
        bare = Treatment("bare metal", "measured", "left out", False, False, "only ./lab starts it on the host")
        left_out = [bare] if self._no_host else []
        seen = [unread()] if self.parameters.swarm else unverified(self._scans)
        return [*seen, *document.judge(self._trials), *left_out]

    def contents(self) -> dict[str, Any]:
        return document.contents(self._trials, noise.over(self._scans))

    def faults(self) -> Sequence[str]:
        """Return why repetitions are INVALID, and why not every one was measured."""
        p = self.parameters
        return document.faults(len(p.cells) * p.repetitions, self._trials)

    def close(self) -> None:
        self._parts.stop()

    def _order(self) -> list[tuple[int, LoadCell]]:
        """Return (repetition, cell) in the order of measuring: each repetition has all cells, at random."""
        chance = random.Random(self.parameters.order_seed)
        order = []
        for repetition in range(self.parameters.repetitions):
            cells = list(self.parameters.cells)
            chance.shuffle(cells)
            order += [(repetition, cell) for cell in cells]
        return order

    def _wait_for_parts(self) -> None:
        for one in self._parts.all():
            self.record.say("waiting", what=one.name)
            away = partial(MachineError, f"{one.name} does not answer.", one.remedy)
            wait_for(one.answers, self.parameters.parts_timeout_s, away)

    def _find_limit(self) -> None:
        """Measure what this machine answers at most, if the loads are shares of it."""
        p = self.parameters
        if not p.shares:
            return
        cell = largest(p.cells)
        self.record.say("waiting", what=f"limit of this machine: {cell.placement}")
        before = self._parts.shortage(cell)
        try:
            limit_per_s = measure_limit(self._parts, cell, p, self.record.token)
        except LabError as error:
            if not self._parts.starved(cell, before):
                raise
            what = f"Out of memory while the limit of this machine was measured: {error.message}"
            raise MachineError(what, "Raise MEMORY_LIMIT_MB, or give DEVICES as numbers.") from None
        self.parameters = p.at_limit(limit_per_s)
        self.record.settle(self.parameters)
        loads = ", ".join(map(str, self.parameters.devices))
        self.record.say("text", text=f"  limit: {limit_per_s:.0f} requests a second; loads: {loads} devices")

    def _provision(self) -> None:
        """Make the devices of the largest cell known, once: they stay in the database."""
        p = self.parameters
        # Bare metal has no memory limit.
        boxed = all(cell.container for cell in p.cells)
        first = LoadCell.keyed(boxed, False, 1, 1, 1)
        self.record.say("waiting", what=f"{p.system} to know {max(p.devices)} devices")
        before = self._parts.shortage(first)
        try:
            self._parts.start(first, p)
            self._parts.provision(first, max(p.devices), self.record.token)
        except LabError as error:
            # Too little memory is a result: no repetition has an answer.
            if not self._parts.starved(first, before):
                raise
            self._starved = error

    def _measure(self, number: int, repetition: int, cell: LoadCell) -> Trial:
        self._progress(number, str(cell))
        name = f"{self.record.token}-{number}"
        first = number * self.parameters.seconds

        def second(running: Trial) -> None:
            self.record.store["state"][first + round(running.seconds) - 1] = ANSWERED
            self.record.state("running", more=document.live(self.parameters.requests, self._trials, running))

        measurement = Measurement(self.parameters, self._parts, cell, repetition, name, second)
        return measurement.not_started(self._starved, True) if self._starved else measurement.run()

    def _note(self, number: int) -> None:
        """Have a repetition on disk and in the live state."""
        self.record.append(range(number, number + 1))
        self.record.state("running", self.treatments())

    def _scan(self) -> None:
        if not self.parameters.swarm:
            self._scans.append(self._client.scan({}))

    def _progress(self, number: int, cell: str) -> None:
        p = self.parameters
        done = number * p.seconds
        left_s = (len(p.cells) * p.repetitions - number) * p.total_s / (len(p.cells) * p.repetitions)
        self.record.progress(cell, done, done, left_s)


def needs_host(p: MiddlewareParameters) -> bool:
    """Return whether a cell is measured on the host itself."""
    return any(not cell.container for cell in p.cells)
