"""One sending: workers of the instance, devices and counters are made, messages sent, the queue drained, all read back.

A cell is one sending; a search makes several for a cell, each with a token of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.database import CommitCost, Database
from looplab.experiments.twin.device import Devices
from looplab.experiments.twin.device_workers import LOST_NS, DeviceWorkers, FarDevices
from looplab.experiments.twin.instance.orders import Order, WorkerCounts, end_order
from looplab.experiments.twin.parameters import ALL, TwinParameters
from looplab.run.cells import wait_for
from looplab.run.record import Record
from looplab.run.samples import ABSENT, ANSWERED, NOT_SENT, WAITING, SampleStore
from looplab.spec.parameters import SLEEP
from looplab.treatments.scans import Scan, processes

SCAN_NS = 50_000_000
# A queue that does not change for this time is given up before the drain timeout; on a Swarm after LOST_NS.
STILL_NS = 30_000_000_000


@dataclass
class Sent:
    """What one sending found, beside the rows; `faults` make its cell invalid."""

    rows: range
    scans: tuple[Scan | None, Scan | None] = (None, None)
    costs: tuple[CommitCost, CommitCost] | None = None
    workers: list[dict[str, int]] = field(default_factory=list)
    disconnects: int = 0
    faults: list[str] = field(default_factory=list)
    unstamped: int = 0
    # The time from the first message to the last scan.
    lasted_s: float = 0.0
    # What run.json holds of devices on other machines.
    devices: dict[str, Any] = field(default_factory=dict)

    def counted(self, name: str) -> int:
        return sum(worker[name] for worker in self.workers)


@dataclass(frozen=True)
class SendingParts:
    """What all sendings of a run share.

    The folder `live` is shared with the instance, `scan` reads the live processes. With `workers` the devices are
    theirs.
    """

    parameters: TwinParameters
    record: Record
    database: Database
    live: Path
    scan: Callable[[], Scan | None]
    workers: DeviceWorkers | None = None


class Sending:
    """Sends `count` messages of a cell from row `first` on, `interval_ns` apart."""

    def __init__(self, parts: SendingParts, index: int, cell: TwinCell, token: str) -> None:
        p = parts.parameters
        self._parts, self._index, self._cell, self._token = parts, index, cell, token
        self._hosts = p.hosts(cell)
        self._counts = WorkerCounts(parts.live)
        self._order = Order(
            token=token, cell=index, brokers=[list(place) for place in self._hosts], qos=cell.qos,
            write_mode=cell.write_mode, tcp_nodelay=p.tcp_nodelay, workers=p.workers,
        )  # fmt: skip
        form: dict[str, Any] = {"devices": p.devices, "length": p.payload_bytes, "tcp_nodelay": p.tcp_nodelay}
        self._devices: Devices | FarDevices
        if parts.workers:
            self._devices = FarDevices(parts.workers, {"brokers": self._hosts, **form})
        else:
            self._devices = Devices(self._hosts, token=token, **form)

    def make(self, rows: range, interval_ns: int, progress: Callable[[], None]) -> Sent:
        """Send and drain; return what was found. Raises LabError where a part is missing."""
        parts, sent = self._parts, Sent(rows)
        try:
            self._begin(rows)
            before, cost = parts.scan(), parts.database.cost()
            begun_ns = perf_counter_ns()
            sleeps = parts.parameters.pacing == SLEEP
            self._devices.send(parts.record.store, rows, interval_ns, self._cell.qos, sleeps=sleeps)
            self._drain(rows, progress)
            sent.scans = (before, parts.scan())
            sent.lasted_s = (perf_counter_ns() - begun_ns) / 1e9
            sent.costs = (cost, parts.database.cost())
        finally:
            sent.workers = self._end()
        sent.disconnects = self._devices.disconnects + sent.counted("disconnects")
        self._reconcile(sent)
        return sent

    def _begin(self, rows: range) -> None:
        p = self._parts.parameters
        # A controller that was killed may have left an order open.
        self._close_order()
        self._counts.clear()
        order = replace(self._order, first=rows.start, last=rows.stop - 1, cpus=self._machines())
        order.write(self._parts.live)
        self._devices.begin(self._token, self._index)
        if not self._devices.connect(p.parts_timeout_s):
            raise MachineError(
                f"No broker: {self._devices.last_error} after {p.parts_timeout_s} s.",
                "See `docker compose logs` of the brokers.",
            )
        self._wait_for_workers(self._order.count, self._pause)

    def _machines(self) -> list[list[int]]:
        """Return the processors of each broker's machine if the instance is on it, too: those that the broker has."""
        p = self._parts.parameters
        scan = self._parts.scan() if p.confine == ALL else None
        brokers = processes(scan, "broker") if scan else ()
        by_host = {str(one["container"]["hostname"]): list(one["cpus"]) for one in brokers}
        return [by_host.get(host, []) for host, _port in self._hosts]

    def _close_order(self) -> None:
        end_order(self._parts.live)
        self._wait_for_workers(0, lambda: sleep(SCAN_NS / 1e9))

    def _wait_for_workers(self, ready: int, pause: Callable[[], object]) -> None:
        """Wait until so many workers are ready. Raises LabError (exit code 3)."""
        timeout_s = self._parts.parameters.parts_timeout_s

        def fault() -> LabError:
            return MachineError(
                f"The twin instance has {self._counts.ready} workers ready after {timeout_s} s, wanted {ready}.",
                "See `docker compose logs` of the instance and of twin-database.",
            )

        wait_for(lambda: self._counts.ready == ready, timeout_s, fault, pause)

    def _drain(self, rows: range, progress: Callable[[], None]) -> None:
        """Wait until the fate of every message is known, or the drain timeout."""
        state = self._parts.record.store["state"]
        end_ns = perf_counter_ns() + self._parts.parameters.drain_timeout_s * 1_000_000_000
        still_ns = LOST_NS if self._parts.parameters.swarm else STILL_NS
        scans, left, changed_ns = 0, -1, perf_counter_ns()
        while perf_counter_ns() < min(end_ns, changed_ns + still_ns):
            waiting = state[rows.start : rows.stop].tolist().count(WAITING)
            if not waiting:
                break
            if waiting != left:
                left, changed_ns = waiting, perf_counter_ns()
            self._devices.wait(perf_counter_ns() + SCAN_NS)
            scans += 1
            if scans % 20 == 0:
                progress()

    def _end(self) -> list[dict[str, int]]:
        self._devices.close()
        self._close_order()
        return self._counts.as_json(self._order.count)

    def _reconcile(self, sent: Sent) -> None:
        """Let the table decide which messages are stored: a stamp alone stores nothing."""
        store = self._parts.record.store
        state, received = store["state"], store["received_ns"]
        stored = self._parts.database.stored(self._token, sent.rows)
        now = perf_counter_ns()
        missing = 0
        for row in sent.rows:
            if state[row] == NOT_SENT:
                continue
            if row in stored and state[row] != ANSWERED:
                # The instance died between commit and stamp. The message was stored before now.
                state[row], sent.unstamped = ANSWERED, sent.unstamped + 1
                received[row] = now if received[row] == ABSENT else received[row]
            elif row not in stored and state[row] == ANSWERED:
                state[row], missing = WAITING, missing + 1
        if missing:
            sent.faults.append(f"{missing} messages were committed, and the database has lost them")
        faults, sent.devices = self._devices.settle(store)
        sent.faults += faults

    def _pause(self) -> None:
        self._devices.wait(perf_counter_ns() + SCAN_NS)


def clear(store: SampleStore, rows: range) -> None:
    """Make `rows` as they were before anything was sent."""
    times = ("due_ns", "intended_ns", "sent_ns", "received_ns", "wire_sent_ns", "left_ns", "arrived_ns", "copies")
    for row in rows:
        store["state"][row] = NOT_SENT
        for name in times:
            store[name][row] = ABSENT
