"""One run of twin: waits for database and instance, then sends, drains and judges cell by cell."""

import os
from secrets import token_hex
from typing import Any

from looplab.errors import UsageError
from looplab.experiments.twin import EXPERIMENT, TwinCell
from looplab.experiments.twin.database import Database, DatabaseFacts
from looplab.experiments.twin.device_workers import DeviceWorkers
from looplab.experiments.twin.document import queues_and_rates
from looplab.experiments.twin.instance.orders import Order
from looplab.experiments.twin.instance.store import conninfo
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.search import SearchStep, judge_step, limit, search
from looplab.experiments.twin.sending import Sendings, Sent
from looplab.experiments.twin.treatments import judge, judge_apart, judge_device_workers, used_hosts
from looplab.run.cells import CellResult, CellRun, entry
from looplab.run.record import Place
from looplab.treatments.judgement import Treatment


class TwinController(CellRun[TwinParameters, TwinCell]):
    """The steps of one run."""

    experiment = EXPERIMENT
    columns = ("copies",)

    def __init__(self, parameters: TwinParameters, place: Place) -> None:
        if place.live is None:
            raise UsageError("LIVE_DIR is not set.", "Set it to a folder that the twin instance shares.")
        super().__init__(parameters, place)
        self.broker = used_hosts(parameters)[0]
        self._database = Database(conninfo(os.environ, "reader"))
        count = parameters.device_workers
        self._workers = DeviceWorkers(count) if count else None
        self._sendings = Sendings(self, self._database, place.live, self._workers)
        # As before and after each cell.
        self._facts: list[DatabaseFacts] = []

    def prepare(self) -> None:
        self.wait_for_part("database", self._database.check)

    def conclude(self, index: int) -> None:
        """Store the samples; the treatments were read while the cell's connections were there."""
        self.record.append(self.parameters.rows(index))
        self.record.versions["database"] = self._facts[-1].version

    def judge(self) -> list[Treatment]:
        p, cells = self.parameters, [one.more for one in self.measured]
        if p.swarm:
            treatments = judge_apart(cells, self._facts)
        else:
            treatments = self.by_scans(lambda scans: judge(p, scans, self._facts))
        return [*treatments, *judge_device_workers(p, cells)]

    def document(self, measured: CellResult[TwinCell], rows: range) -> dict[str, Any]:
        store = self.record.store
        more = {**queues_and_rates(self.parameters, store, rows, measured.cell), **measured.more}
        return entry(CellResult(measured.cell, more, measured.faults), store, rows)

    def close(self) -> None:
        if self._workers:
            self._workers.close()

    def measure_cell(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        self._facts.append(self._database.facts())
        self.progress(index, cell, 0)
        measured = self._search(index, cell) if self.parameters.search else self._sent(index, cell)
        self._facts.append(self._database.facts())
        return measured

    def _sent(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        p = self.parameters
        sent = self._send(index, cell, p.rows(index), round(cell.interval_ms * 1e6), self.record.token)
        return CellResult(cell, sent.figures, sent.faults)

    def _search(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        """Search the highest sustained rate; the cell's rows are those of the last step."""
        p, store, rows = self.parameters, self.record.store, self.parameters.rows(index)
        made: list[Sent] = []

        def attempt(rate_per_s: float) -> tuple[SearchStep, dict[str, Any]]:
            store.clear(rows)
            self.record.say("step", cell=str(cell), rate_per_s=rate_per_s)
            count = min(len(rows), max(2, round(rate_per_s * p.step_s)))
            made.append(self._send(index, cell, rows[:count], round(1e9 / rate_per_s), token_hex(4)))
            step = judge_step(p, store, rows[:count], rate_per_s)
            return step, limit(p, made[-1], step)

        result = search(p, attempt)
        faults = [fault for one in made for fault in one.faults]
        if not result["steps"][-1]["sustained"]:
            faults.append("no rate was sustained")
        return CellResult(cell, {**made[-1].figures, **result}, faults)

    def _send(self, index: int, cell: TwinCell, rows: range, interval_ns: int, token: str) -> Sent:
        p = self.parameters
        own = (p.tcp_nodelay, p.workers, p.devices, p.payload_bytes)
        order = Order(token, index, p.hosts(cell), cell.qos, cell.write_mode, *own)
        return self._sendings.make(order, rows, interval_ns)


Controller = TwinController
