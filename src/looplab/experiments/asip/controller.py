"""One run of asip: has each client measure over each transport, and reads the oscilloscope beside it."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.asip import EXPERIMENT, NAME, AsipCell, placement
from looplab.experiments.asip.document import COLUMNS, Measured, faults, files, measured_cell
from looplab.experiments.asip.oscilloscope import Oscilloscope
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.phases import Phases
from looplab.experiments.asip.treatments import judge
from looplab.experiments.asip.workers import ANSWER_TIMEOUT_S, WorkerClient
from looplab.run.life import Run, wait_for
from looplab.run.record import Place, Record
from looplab.run.samples import ANSWERED
from looplab.treatments import noise
from looplab.treatments.judgement import Treatment, on_off
from looplab.treatments.looks import Look, TreatmentsClient

BOARD = "asip-board:4001"


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: AsipParameters, place: Place) -> None:
        self.parameters = p = parameters
        self._measured: list[Measured] = []
        self.record = Record(p, place, COLUMNS, files(p, self._measured), {"experiment": NAME})
        self._scope = Oscilloscope(os.environ.get("ASIP_BOARD") or BOARD)
        addresses = placement.addresses(p)
        self._bridge = placement.Bridge(p, addresses["tcp"])
        self._simulated = p.robot == "virtual"
        self._phases = Phases(p, self.record.store, self._scope, addresses, self._simulated)
        self._client = TreatmentsClient(EXPERIMENT.roles)
        self._looks: list[Look | None] = []
        self._error = LabError("")

    def measure(self) -> None:
        """Wait for board and clients, then measure cell by cell; a cell that fails is INVALID."""
        p, record = self.parameters, self.record
        if self._simulated:
            self._wait("simulated board", self._scope.answers, self._no_board)
        for language in p.languages:
            self._wait(f"{language} client", partial(self._answers, language), self._no_answer)
        if p.bridged:
            self._wait("bridge on the Pi" if p.robot == "remote" else "bridge", self._bridge_serves, self._no_answer)
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.whole_s))
        record.begin()
        self._look()
        for index, cell in enumerate(p.cells):
            self._progress(index, cell)
            self._measured.append(Measured(cell))
            try:
                placement.set_up(p, cell)
                self._measure(index, self._measured[-1])
            except LabError as error:
                self._measured[-1].faults += [error.message, *self._silence(cell)]
            self._measured[-1].faults += placement.faults(p, cell)
            self._look()
            record.append(p.rows(index))
            record.state("running", self.treatments())
        self._progress(len(p.cells), p.cells[-1])

    def treatments(self) -> list[Treatment]:
        return judge(self.parameters, self._looks, self._measured)

    def contents(self) -> dict[str, Any]:
        p, store = self.parameters, self.record.store
        cells = [measured_cell(p, store, p.rows(at), entry) for at, entry in enumerate(self._measured)]
        return {"cells": cells, "noise_floor": noise.over(self._looks)}

    def faults(self) -> Sequence[str]:
        """Return why cells are INVALID."""
        return faults(self._measured)

    def close(self) -> None:
        placement.take_away(self.parameters)

    def _measure(self, index: int, measured: Measured) -> None:
        patience_s = max(ANSWER_TIMEOUT_S, self.parameters.parts_timeout_s)
        with WorkerClient(measured.cell.language, _worker(measured.cell.language), patience_s) as worker:
            runtime = measured.more["runtime"] = worker.hello()
            if measured.cell.language == "java" and ("JIT" in runtime) != self.parameters.jit:
                measured.faults.append(f"JIT={on_off(self.parameters.jit)} did not take: {runtime}")
            if self._simulated:
                # It counts its lags since it was last asked.
                self._scope.counts()
            self._phases.measure(self.parameters.rows(index), measured, worker)
            measured.board = self._scope.counts() if self._simulated else None

    def _silence(self, cell: AsipCell) -> list[str]:
        """Return that the bridge does not answer, where a cell failed that needs it."""
        missing = self._bridge.missing() if cell.transport != "serial" else None
        return [missing.message] if missing else []

    def _wait(self, what: str, ready: Callable[[], bool], fault: Callable[[], LabError]) -> None:
        self.record.say("waiting", what=what)
        wait_for(ready, self.parameters.parts_timeout_s, fault)

    def _answers(self, language: str) -> bool:
        try:
            with WorkerClient(language, _worker(language)) as worker:
                worker.hello()
        except LabError as error:
            self._error = error
            return False
        return True

    def _bridge_serves(self) -> bool:
        missing = self._bridge.missing()
        self._error = missing or self._error
        return missing is None

    def _no_answer(self) -> LabError:
        return self._error

    def _no_board(self) -> LabError:
        return MachineError("The simulated board does not answer.", "See `docker compose logs asip-board`.")

    def _look(self) -> None:
        self._looks.append(self._client.look({}))

    def _progress(self, index: int, cell: AsipCell) -> None:
        p = self.parameters
        done = index * p.messages * p.repetitions
        left_s = (len(p.cells) - index) * p.whole_s / len(p.cells)
        answered = sum(state == ANSWERED for state in self.record.store["state"][:done])
        self.record.progress(str(cell), answered, done, left_s)


def _worker(language: str, environment: Mapping[str, str] = os.environ) -> str:
    return environment.get(f"ASIP_{language.upper()}") or f"asip-{language}:5100"
