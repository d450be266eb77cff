"""One run of asip: has each client measure over each transport, and reads the oscilloscope beside it."""

from contextlib import closing
from functools import partial

from looplab.errors import LabError
from looplab.experiments.asip import EXPERIMENT, AsipCell, placement
from looplab.experiments.asip.document import COLUMNS, planned
from looplab.experiments.asip.oscilloscope import BoardCounts, Oscilloscope
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.phases import Phases
from looplab.experiments.asip.treatments import judge, judge_board, judge_reports
from looplab.experiments.asip.workers import ANSWER_TIMEOUT_S, WorkerClient
from looplab.run.cells import CellResult, CellRun
from looplab.run.record import Place
from looplab.treatments.judgement import Treatment, on_off


class AsipController(CellRun[AsipParameters, AsipCell]):
    """The steps of one run; a cell that fails is INVALID, and the run goes on."""

    experiment, columns = EXPERIMENT, COLUMNS

    def __init__(self, parameters: AsipParameters, place: Place) -> None:
        if "mqtt" in parameters.transports:
            self.broker = ("broker", 1883)
        super().__init__(parameters, place)
        self._at = placement.addresses(parameters)
        self._scope = Oscilloscope(self._at["board"])
        self._bridge = placement.BridgeClient(parameters, self._at["tcp"])
        self._phases = Phases(parameters, self.record.store, self._scope, self._at)
        self._boards: list[BoardCounts] = []

    def prepare(self) -> None:
        """Wait for board, clients and bridge."""
        p = self.parameters
        if p.simulated:
            self.wait_for_part("simulated board", self._scope.state)
        for language in p.languages:
            self.wait_for_part(f"{language} client", partial(self._check_client, language))
        if any(cell.transport != "serial" for cell in p.cells):
            self.wait_for_part(self._bridge.name, self._bridge.check)
        self.scan()

    def measure_cell(self, index: int, cell: AsipCell) -> CellResult[AsipCell]:
        self.progress(index, cell, 0)
        measured = planned(self.parameters, cell)
        try:
            self._measure(index, measured)
        except LabError as error:
            measured.faults.append(error.message)
        return measured

    def judge(self) -> list[Treatment]:
        p = self.parameters
        return [*self.by_scans(partial(judge, p)), judge_reports(p, self.measured), *judge_board(p, self._boards)]

    def _measure(self, index: int, measured: CellResult[AsipCell]) -> None:
        p, language = self.parameters, measured.cell.language
        with closing(self._client(language)) as worker:
            runtime = measured.more["runtime"] = worker.runtime()
            if language == "java" and ("JIT" in runtime) != p.jit:
                measured.faults.append(f"JIT={on_off(p.jit)} did not take: {runtime}")
            if p.simulated:
                # The board counts lags from the last question on.
                self._scope.counts()
            self._phases.measure(p.rows(index), measured, worker)
            if p.simulated:
                self._boards.append(self._scope.counts())
                measured.more["board_lag_us"] = self._boards[-1].lag_max_us

    def _client(self, language: str) -> WorkerClient:
        return WorkerClient(language, self._at[language], max(ANSWER_TIMEOUT_S, self.parameters.parts_timeout_s))

    def _check_client(self, language: str) -> None:
        with closing(self._client(language)) as worker:
            worker.runtime()


Controller = AsipController
