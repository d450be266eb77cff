"""One run of asip: has each client measure over each transport, and reads the oscilloscope beside it."""

import os
from collections.abc import Mapping
from functools import partial

from looplab.errors import LabError
from looplab.experiments.asip import EXPERIMENT, AsipCell, placement
from looplab.experiments.asip.document import COLUMNS, AsipMeasurement, files, planned
from looplab.experiments.asip.oscilloscope import Oscilloscope
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.phases import Phases
from looplab.experiments.asip.treatments import judge
from looplab.experiments.asip.workers import ANSWER_TIMEOUT_S, WorkerClient
from looplab.run.cells import CellRun
from looplab.run.record import File, Place
from looplab.treatments.judgement import Treatment, on_off

BOARD = "asip-board:4001"


class AsipController(CellRun[AsipParameters, AsipCell]):
    """The steps of one run; a cell that fails is INVALID, and the run goes on."""

    experiment, columns = EXPERIMENT, COLUMNS

    def __init__(self, parameters: AsipParameters, place: Place) -> None:
        self._own: list[AsipMeasurement] = []
        if "mqtt" in parameters.transports:
            self.broker = ("broker", 1883)
        super().__init__(parameters, place)
        self._scope = Oscilloscope(os.environ.get("ASIP_BOARD") or BOARD)
        addresses = placement.addresses(parameters)
        self._bridge = placement.BridgeClient(parameters, addresses["tcp"])
        self._simulated = parameters.robot == "virtual"
        self._phases = Phases(parameters, self.record.store, self._scope, addresses, self._simulated)

    def prepare(self) -> None:
        """Wait for board, clients and bridge."""
        p = self.parameters
        if self._simulated:
            self.wait_for_part("simulated board", self._scope.check)
        for language in p.languages:
            self.wait_for_part(f"{language} client", partial(_check_client, language))
        if any(cell.transport != "serial" for cell in p.cells):
            self.wait_for_part(self._bridge.name, self._bridge.check)
        self.scan()

    def measure_cell(self, index: int, cell: AsipCell) -> AsipMeasurement:
        self.progress(index, cell, 0)
        measured = planned(self.parameters, cell)
        self._own.append(measured)
        try:
            self._measure(index, measured)
        except LabError as error:
            measured.faults.append(error.message)
        return measured

    def judge(self) -> list[Treatment]:
        return judge(self.parameters, self.scans, self._own, self.client.fault)

    def files(self) -> list[File]:
        return files(self.parameters)

    def _measure(self, index: int, measured: AsipMeasurement) -> None:
        p, language = self.parameters, measured.cell.language
        with WorkerClient(language, _worker(language), max(ANSWER_TIMEOUT_S, p.parts_timeout_s)) as worker:
            runtime = measured.more["runtime"] = worker.runtime()
            if language == "java" and ("JIT" in runtime) != p.jit:
                measured.faults.append(f"JIT={on_off(p.jit)} did not take: {runtime}")
            if self._simulated:
                # The board counts lags from the last question on.
                self._scope.counts()
            self._phases.measure(p.rows(index), measured, worker)
            if self._simulated:
                measured.board = self._scope.counts()
                measured.more["board_lag_us"] = measured.board.lag_us


def _check_client(language: str) -> None:
    with WorkerClient(language, _worker(language)) as worker:
        worker.runtime()


def _worker(language: str, environment: Mapping[str, str] = os.environ) -> str:
    return environment.get(f"ASIP_{language.upper()}") or f"asip-{language}:5100"


Controller = AsipController
