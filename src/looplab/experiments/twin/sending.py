"""One sending: workers of the instance, devices and counters are made, messages sent, the queue drained, all read back.

A cell is one sending; a search makes several for a cell, each with a token of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.database import CommitCost, Database
from looplab.experiments.twin.device import Devices
from looplab.experiments.twin.device_workers import LOST_NS, DeviceWorkers, FarDevices
from looplab.experiments.twin.instance.orders import Order, WorkerCount, WorkerCounts, end_order
from looplab.experiments.twin.parameters import ALL, TwinParameters
from looplab.run.cells import CellRun, wait_for
from looplab.run.samples import ABSENT, ANSWERED, NOT_SENT, WAITING
from looplab.treatments.loads.load import seconds
from looplab.treatments.scans import Scan, grown, processes, survivors

TwinRun = CellRun[TwinParameters, TwinCell]
SCAN_NS = 50_000_000
# A queue that does not change for this time is given up before the drain timeout; on a Swarm after LOST_NS.
STILL_NS = 30_000_000_000


@dataclass(frozen=True)
class Sent:
    """What one sending found beside its rows: what run.json holds of it, what makes its cell invalid, and its length.

    The length is 0 where no process could be read.
    """

    order: Order
    figures: dict[str, Any]
    faults: list[str]
    lasted_s: float


class Sendings:
    """Makes the sendings of a run, one after the other.

    The folder `live` is shared with the instance. With `workers` the devices are theirs.
    """

    def __init__(self, run: TwinRun, database: Database, live: Path, workers: DeviceWorkers | None) -> None:
        self._run, self._p, self._store = run, run.parameters, run.record.store
        self._database, self._live, self._workers = database, live, workers
        self._counts = WorkerCounts(live)

    def make(self, order: Order, rows: range, interval_ns: int) -> Sent:
        """Send `rows` and drain; return what was found. Raises LabError where a part is missing."""
        devices = FarDevices(self._workers, order) if self._workers else Devices(order)
        try:
            self._begin(order, rows, devices)
            first, before = self._database.cost(), self._run.scan()
            devices.send(self._store, rows, interval_ns)
            self._drain(order, rows, devices)
            after, last = self._run.scan(), self._database.cost()
        finally:
            devices.close()
            self._close_order()
        figures = usage(order, self._counts, (before, after), (first, last))
        figures["disconnects"] += devices.disconnects
        faults = self._reconcile(order.token, rows)
        if isinstance(devices, FarDevices):
            fallen, figures["device_workers"] = devices.settle(self._store)
            faults += fallen
        return Sent(order, figures, faults, seconds(before, after) if before and after else 0.0)

    def _begin(self, order: Order, rows: range, devices: Devices | FarDevices) -> None:
        timeout_s = self._p.parts_timeout_s
        # A controller that was killed may have left an order open.
        self._close_order()
        self._counts.clear()
        replace(order, first=rows.start, last=rows.stop - 1, cpus=self._machines(order)).write(self._live)
        if not devices.connect(timeout_s):
            raise MachineError(
                f"No broker: {devices.last_error} after {timeout_s} s.", "See `docker compose logs` of the brokers."
            )
        self._wait_for_workers(order.count, lambda: devices.wait(perf_counter_ns() + SCAN_NS))

    def _machines(self, order: Order) -> list[list[int]]:
        """Return the processors of each broker's machine if the instance is on it, too: those that the broker has."""
        scan = self._run.scan() if self._p.confine == ALL else None
        brokers = processes(scan, "broker") if scan else ()
        by_host = {str(one["container"]["hostname"]): list(one["cpus"]) for one in brokers}
        return [by_host.get(host, []) for host, _port in order.brokers]

    def _close_order(self) -> None:
        end_order(self._live)
        self._wait_for_workers(0, lambda: sleep(SCAN_NS / 1e9))

    def _wait_for_workers(self, ready: int, pause: Callable[[], object]) -> None:
        """Wait until so many workers are ready. Raises LabError (exit code 3)."""
        timeout_s = self._p.parts_timeout_s
        why = f"The twin instance does not have {ready} workers ready after {timeout_s} s."
        away = MachineError(why, "See `docker compose logs` of the instance and of twin-database.")
        wait_for(lambda: sum(self._counts.each(WorkerCount.READY)) == ready, timeout_s, lambda: away, pause)

    def _drain(self, order: Order, rows: range, devices: Devices | FarDevices) -> None:
        """Wait until the fate of every message is known, or the drain timeout."""
        end_ns = perf_counter_ns() + self._p.drain_timeout_s * 1_000_000_000
        still_ns = LOST_NS if self._p.swarm else STILL_NS
        scans, left, changed_ns = 0, -1, perf_counter_ns()
        while perf_counter_ns() < min(end_ns, changed_ns + still_ns):
            states = self._store["state"][rows.start : rows.stop].tolist()
            waiting = states.count(WAITING)
            if not waiting:
                break
            if waiting != left:
                left, changed_ns = waiting, perf_counter_ns()
            devices.wait(perf_counter_ns() + SCAN_NS)
            scans += 1
            if scans % 20 == 0:
                settled = sum(state > WAITING for state in states)
                self._run.progress(order.cell, self._p.schedule[order.cell], settled)

    def _reconcile(self, token: str, rows: range) -> list[str]:
        """Let the table decide which messages are stored: a stamp alone stores nothing. Return what it has lost."""
        state, received = self._store["state"], self._store["received_ns"]
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


def usage(
    order: Order, counts: WorkerCounts, scans: Sequence[Scan | None], costs: Sequence[CommitCost]
) -> dict[str, Any]:
    """Return what goes into a cell of run.json beside what its rows tell; scans and costs are before and after it."""
    before, after = scans
    first, last = costs
    times = {"sleep": WorkerCount.SLEEP_NS, "session": WorkerCount.SESSION_NS, "store": WorkerCount.STORE_NS}
    return {
        "malformed": sum(counts.each(WorkerCount.MALFORMED)),
        "disconnects": sum(counts.each(WorkerCount.DISCONNECTS)),
        "worker_restarts": sum(counts.each(WorkerCount.STARTS)) - order.count,
        "database_errors": sum(counts.each(WorkerCount.DATABASE_ERRORS)),
        "cpu_share": {} if before is None or after is None else _parts(order, before, after),
        "fsync": {"count": last.syncs - first.syncs, "seconds": round((last.sync_ms - first.sync_ms) / 1000, 6)},
        "unacknowledged_max": max(counts.each(WorkerCount.UNACKNOWLEDGED_MAX)),
        "instance_s": {name: round(sum(counts.each(count)) / 1e9, 6) for name, count in times.items()},
    }


def _parts(order: Order, before: Scan, after: Scan) -> dict[str, Any]:
    """Return shares of one processor by part, and of all processors of the machine."""
    elapsed_ns = after["clock_ns"] - before["clock_ns"]
    hosts = {host for host, _port in order.brokers}

    def shares(role: str) -> list[float]:
        pairs = survivors(before, after, role)
        # Brokers of other cells run, too; without Compose a broker has no host of its own.
        mine = [pair for pair in pairs if pair[1]["container"]["hostname"] in hosts] or pairs
        return [round((now["cpu_ns"] - was["cpu_ns"]) / elapsed_ns, 4) for was, now in mine]

    # Sessions come and go within a cell: their time is then that of their parent's children.
    database_ns = grown(before, after, "database", "cpu_ns", "children_cpu_ns")
    idle_s = sum(now["idle_s"] - before["processors"][name]["idle_s"] for name, now in after["processors"].items())
    return {
        "broker": shares("broker"),
        "instance": shares("workers"),
        "database": round(database_ns / elapsed_ns, 4),
        "controller": sum(shares("controller")),
        "machine": round(max(0.0, 1 - 1e9 * idle_s / elapsed_ns / len(after["processors"])), 4),
    }
