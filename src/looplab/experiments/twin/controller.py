"""One run of twin: waits for database and instance, then sends, drains and judges cell by cell."""

import os
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from looplab.errors import UsageError
from looplab.experiments.twin import EXPERIMENT, TwinCell
from looplab.experiments.twin.database import Database
from looplab.experiments.twin.device_workers import DeviceWorkers
from looplab.experiments.twin.document import queues_and_rates
from looplab.experiments.twin.instance.store import conninfo
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.search import SearchStep, judge_step, limit, search
from looplab.experiments.twin.sending import Sending, SendingParts, Sent, clear
from looplab.experiments.twin.treatments import judge, judge_apart, judge_device_workers, used_hosts
from looplab.experiments.twin.usage import usage
from looplab.experiments.twin.window import windows
from looplab.link.settings import LinkSettings, both_ways
from looplab.run.cells import CellResult, CellRun, entry
from looplab.run.record import Place
from looplab.treatments.emulators import Emulators, judge_cells
from looplab.treatments.judgement import Treatment

# The emulator is in the network namespace of the broker.
EMULATORS = Emulators({"broker": "http://broker-1:9107"})
# The broker's machine knows the devices by this name.
PEER = "controller"


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
        self._parts = SendingParts(parameters, self.record, self._database, place.live, self.scan, self._workers)
        self._started: set[str] = set()
        self._links = links(parameters)
        # The name of each cell with a link, the back end that emulated it, and its faults.
        self._made: list[tuple[str, str, list[str]]] = []
        # What each broker shows of its window, at the end.
        self._windows: list[Treatment] = []

    def prepare(self) -> None:
        self.wait_for_part("database", self._database.check)
        if self._links:
            self.wait_for_part("link emulator", EMULATORS.check)

    def conclude(self, index: int) -> None:
        """Store the samples; the treatments were read while the cell's connections were there."""
        p = self.parameters
        self.record.append(p.rows(index))
        if index + 1 == len(p.schedule):
            self.record.versions["database"] = self._database.facts().version
            # Asked for last: the messages are part of no cell.
            self._windows = windows(used_hosts(p), p.max_inflight)

    def judge(self) -> list[Treatment]:
        p, database = self.parameters, self._database.facts()
        if p.swarm:
            treatments = judge_apart([one.more for one in self.measured], database, self._started)
        else:
            treatments = self.by_scans(lambda scans: judge(p, scans, database, self._started))
        reports = [one.more["device_workers"] for one in self.measured] if p.device_workers else []
        return [*treatments, *judge_device_workers(p, reports), *judge_cells(self._made), *self._windows]

    def document(self, measured: CellResult[TwinCell], rows: range) -> dict[str, Any]:
        store = self.record.store
        more = {**queues_and_rates(self.parameters, store, rows, measured.cell), **measured.more}
        return entry(CellResult(measured.cell, more, measured.faults), store, rows)

    def close(self) -> None:
        EMULATORS.clear(self._links)
        if self._workers:
            self._workers.close()
        self._database.close()

    def measure_cell(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        self._started.add(self._database.facts().started)
        self.progress(index, cell, 0)
        measured = self._search(index, cell) if self.parameters.search else self._send(index, cell)
        self._started.add(self._database.facts().started)
        return measured

    def _send(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        p = self.parameters
        backend = EMULATORS.apply(self._links) if self._links else ""
        sending = Sending(self._parts, index, cell, self.record.token)
        sent = sending.make(p.rows(index), round(cell.interval_ms * 1e6), lambda: self._settled(index, cell))
        more: dict[str, Any] = {**counts(sent), **usage(p, cell, sent), **sent.devices}
        if self._links:
            reports, faults = EMULATORS.judge(self._links)
            self._made.append((str(cell), backend, faults))
            more["links"] = {"backend": backend, "ways": list(reports.values())}
        return CellResult(cell, more, sent.faults)

    def _search(self, index: int, cell: TwinCell) -> CellResult[TwinCell]:
        """Search the highest sustained rate; the cell's rows are those of the last step."""
        p, store, rows = self.parameters, self.record.store, self.parameters.rows(index)
        made: list[Sent] = []

        def attempt(rate_per_s: float) -> tuple[SearchStep, dict[str, Any]]:
            clear(store, rows)
            self.record.say("step", cell=str(cell), rate_per_s=rate_per_s)
            count = min(len(rows), max(2, round(rate_per_s * p.step_s)))
            sending = Sending(self._parts, index, cell, token_hex(4))
            sent = sending.make(rows[:count], round(1e9 / rate_per_s), lambda: self._settled(index, cell))
            made.append(sent)
            step = judge_step(p, store, sent.rows, rate_per_s)
            return step, limit(p, cell, sent, step)

        result = search(p, attempt)
        faults = [fault for one in made for fault in one.faults]
        if not result["steps"][-1]["sustained"]:
            faults.append("no rate was sustained")
        return CellResult(cell, {**counts(made[-1]), **usage(p, cell, made[-1]), **result}, faults)

    def _settled(self, index: int, cell: TwinCell) -> None:
        """Report how many messages of a cell are stored or refused."""
        rows = self.parameters.rows(index)
        state = self.record.store["state"][rows.start : rows.stop].tolist()
        self.progress(index, cell, sum(value > 1 for value in state))


def counts(sent: Sent) -> Mapping[str, int]:
    """Return a cell's counts that belong to no single row, as run.json names them."""
    return {
        "malformed": sent.counted("malformed") + sent.counted("foreign"),
        "disconnects": sent.disconnects,
        "worker_restarts": sent.counted("starts") - len(sent.workers),
        "database_errors": sent.counted("database_errors"),
        "unstamped": sent.unstamped,
    }


def links(p: TwinParameters) -> dict[str, list[LinkSettings]]:
    """Return the network between the devices and the broker, {} without one; a packet does not overtake another.

    The paper leaves delay, jitter and loss for later work.
    """
    if not p.link:
        return {}
    loss = p.link_loss_percent
    return {"broker": both_ways(PEER, p.link_delay_ms, p.link_jitter_ms, loss_percent=loss, reorder=False)}


Controller = TwinController
