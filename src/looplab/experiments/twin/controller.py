"""One run of twin: waits for database and instance, then sends, drains and judges cell by cell.

A cell is one sending; a search makes several for a cell, each with a token of its own.
"""

import os
from collections.abc import Callable, Sequence
from secrets import token_hex
from time import perf_counter_ns, sleep
from typing import Any

from looplab.errors import MachineError, UsageError
from looplab.experiments.twin import EXPERIMENT, TwinCell
from looplab.experiments.twin.database import Database, DatabaseFacts
from looplab.experiments.twin.device import Devices
from looplab.experiments.twin.device_workers import LOST_S, DeviceWorkers, FarDevices
from looplab.experiments.twin.document import queues_and_rates
from looplab.experiments.twin.instance.orders import Order, WorkerCount, WorkerCounts, end_order
from looplab.experiments.twin.instance.store import conninfo
from looplab.experiments.twin.parameters import ALL, TwinParameters
from looplab.experiments.twin.search import SearchStep, judge_step, limit, search
from looplab.experiments.twin.sending import Sent, usage
from looplab.experiments.twin.treatments import judge, judge_apart, judge_device_workers, used_hosts
from looplab.run.cells import CellResult, CellRun, entry, wait_for
from looplab.run.record import Place
from looplab.run.samples import ABSENT, ANSWERED, NOT_SENT, WAITING
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads.load import seconds
from looplab.treatments.scans import processes

SCAN_NS = 50_000_000
# A queue that does not change for this time is given up before the drain timeout; on a Swarm after LOST_S.
STILL_S = 30


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
        # The folder that the instance shares.
        self._live, self._counts = place.live, WorkerCounts(place.live)
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
        """Send `rows` and drain; return what was found. Raises LabError where a part is missing."""
        p, store, hosts = self.parameters, self.record.store, self.parameters.hosts(cell)
        # A controller that was killed may have left an order open.
        self._close_order()
        self._counts.clear()
        own = (p.tcp_nodelay, p.workers, p.devices, p.payload_bytes, rows.start, rows.stop - 1)
        order = Order(token, index, hosts, cell.qos, cell.write_mode, *own, self._machines(hosts))
        devices = FarDevices(self._workers, order) if self._workers else Devices(order)
        try:
            order.write(self._live)
            if not devices.connect(p.parts_timeout_s):
                why = f"No broker: {devices.last_error} after {p.parts_timeout_s} s."
                raise MachineError(why, "See `docker compose logs` of the brokers.")
            self._wait_for_workers(order.count, lambda: devices.wait(perf_counter_ns() + SCAN_NS))
            first, before = self._database.cost(), self.scan()
            devices.send(store, rows, interval_ns)
            self._drain(index, rows, devices)
            after, last = self.scan(), self._database.cost()
        finally:
            devices.close()
            self._close_order()
        figures = usage(order, self._counts, (before, after), (first, last))
        figures["disconnects"] += devices.disconnects
        faults = self._reconcile(token, rows)
        if isinstance(devices, FarDevices):
            fallen, figures["device_workers"] = devices.settle(store)
            faults += fallen
        return Sent(order, figures, faults, seconds(before, after) if before and after else 0.0)

    def _machines(self, hosts: Sequence[tuple[str, int]]) -> list[list[int]]:
        """Return the processors of each broker's machine if the instance is on it, too: those that the broker has."""
        scan = self.scan() if self.parameters.confine == ALL else None
        brokers = processes(scan, "broker") if scan else ()
        by_host = {str(one["container"]["hostname"]): list(one["cpus"]) for one in brokers}
        return [by_host.get(host, []) for host, _port in hosts]

    def _close_order(self) -> None:
        end_order(self._live)
        self._wait_for_workers(0, lambda: sleep(SCAN_NS / 1e9))

    def _wait_for_workers(self, ready: int, pause: Callable[[], object]) -> None:
        """Wait until so many workers are ready. Raises LabError (exit code 3)."""
        timeout_s = self.parameters.parts_timeout_s
        why = f"The twin instance does not have {ready} workers ready after {timeout_s} s."
        away = MachineError(why, "See `docker compose logs` of the instance and of twin-database.")
        wait_for(lambda: sum(self._counts.each(WorkerCount.READY)) == ready, timeout_s, lambda: away, pause)

    def _drain(self, index: int, rows: range, devices: Devices | FarDevices) -> None:
        """Wait until the fate of every message is known, or the drain timeout."""
        p = self.parameters
        end_ns = perf_counter_ns() + p.drain_timeout_s * 1_000_000_000
        still_ns = (LOST_S if p.swarm else STILL_S) * 1_000_000_000
        scans, left, changed_ns = 0, -1, perf_counter_ns()
        while perf_counter_ns() < min(end_ns, changed_ns + still_ns):
            states = self.record.store["state"][rows.start : rows.stop].tolist()
            waiting = states.count(WAITING)
            if not waiting:
                break
            if waiting != left:
                left, changed_ns = waiting, perf_counter_ns()
            devices.wait(perf_counter_ns() + SCAN_NS)
            scans += 1
            if scans % 20 == 0:
                settled = sum(state > WAITING for state in states)
                self.progress(index, p.schedule[index], settled)

    def _reconcile(self, token: str, rows: range) -> list[str]:
        """Let the table decide which messages are stored: a stamp alone stores nothing. Return what it has lost."""
        state, received = self.record.store["state"], self.record.store["received_ns"]
        stored = self._database.stored(token, rows)
        now = perf_counter_ns()
        missing = 0
        for row in rows:
            if state[row] == NOT_SENT:
                continue
            if row in stored and state[row] != ANSWERED:
                # The instance died between commit and stamp. The message was stored before now.
                state[row] = ANSWERED
                received[row] = now if received[row] == ABSENT else received[row]
            elif row not in stored and state[row] == ANSWERED:
                state[row], missing = WAITING, missing + 1
        return [f"{missing} messages were committed, and the database has lost them"] if missing else []


Controller = TwinController
