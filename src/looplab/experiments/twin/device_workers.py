"""Devices on other machines: each worker sends its share of a cell, and the controller merges what the workers report.

No clock is compared. A worker's times count from its start, which lies between the order to begin and the answer to it:
half of that round trip is the error of every time that a worker reports.
"""

import contextlib
import hmac
import json
import os
import threading
from dataclasses import asdict
from socketserver import StreamRequestHandler, ThreadingTCPServer
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.twin.instance.orders import Order
from looplab.mqtt.dial import give_up_silent_peer
from looplab.run.cells import CutShort
from looplab.run.clients import Clients
from looplab.run.samples import ABSENT, NOT_SENT, WAITING, SampleStore
from looplab.system.json_client import read_token

PORT = 9108
# A worker is lost after this silence. An engine that was cut off looks for the others only each 60 s
# (rejoinClusterInterval in moby's networkdb).
LOST_S = 90
# One that is connected may take so many times as long as planned.
SLOW = 10
STEP_NS = 20_000_000
# The longest first line of a worker, and the time in which it must come.
FIRST_BYTES, FIRST_S = 1000, 5.0
# So many connections may wait for their first line: anybody on this network may open one.
MOST_STRANGERS = 32
# A worker reports these times of each message, in ns from its start.
TIMES = ("due_ns", "intended_ns", "sent_ns", "wire_sent_ns", "left_ns")


def port() -> int:
    """Return the port on which the controller waits for workers: DEVICE_PORT or PORT."""
    return int(os.environ.get("DEVICE_PORT") or PORT)


def own_token() -> str:
    """Return the token of this start of the lab. Raises MachineError if there is none."""
    if token := read_token("device-workers"):
        return token
    raise MachineError("There is no token for device workers.", "`docker compose up` has `prepare` write one.")


class WorkerConnection(StreamRequestHandler):
    """A connection: `host` is the worker's machine, `reported` what came since its last order.

    It sends the messages of `rows` from `begin_ns` on.
    """

    server: "DeviceWorkers"
    rows = range(0)
    begin_ns = 0
    # Whether its connection has ended.
    lost = False

    def handle(self) -> None:
        """Read reports until the connection ends. Its first line must hold the token."""
        with contextlib.suppress(OSError, ValueError, MachineError):
            self.host = self._first_line()
            self.reported: dict[str, Any] = {}
            self.server.joined.append(self)
            for line in self.rfile:
                report = json.loads(line)
                if "begun" in report:
                    report["begun"] = perf_counter_ns()
                self.reported |= report

    def finish(self) -> None:
        """Note the end, whatever ended it."""
        self.lost = True
        super().finish()

    def _first_line(self) -> str:
        """Return the worker's host. Raises ConnectionError for the wrong token."""
        try:
            self.connection.settimeout(FIRST_S)
            token, _, host = self.rfile.readline(FIRST_BYTES).decode("ascii").strip().partition(" ")
            if not hmac.compare_digest(token, own_token()):
                raise ConnectionError
            self.connection.settimeout(None)
            give_up_silent_peer(self.connection, LOST_S)
            return host
        finally:
            self.server.strangers.release()

    def order(self, **order: Any) -> None:
        """Send one order; that the connection has ended shows in `lost`."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(order).encode() + b"\n")

    def begin(self, store: SampleStore, rows: range, lead_ns: int, **begin: Any) -> None:
        """Have `rows` sent; until the worker reports, they have the planned times."""
        self.rows, first_ns = rows, perf_counter_ns() + lead_ns
        for number, row in enumerate(rows):
            at_ns = first_ns + number * begin["interval_ns"]
            store["due_ns"][row] = store["intended_ns"][row] = store["sent_ns"][row] = at_ns
            store["state"][row] = WAITING
        self.begin_ns = perf_counter_ns()
        self.order(begin={"first": rows.start, "count": len(rows), "lead_ns": lead_ns, **begin})


class DeviceWorkers(ThreadingTCPServer):
    """Accepts the workers of a run, which need `count` of them: those that have shown the token are `joined`."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = MOST_STRANGERS

    def __init__(self, count: int) -> None:
        """Listen. Raises MachineError where the port is taken, or without a token."""
        own_token()
        self.count = count
        self.joined: list[WorkerConnection] = []
        self.strangers = threading.BoundedSemaphore(MOST_STRANGERS)
        with MachineError.of_os(f"Port {port()} cannot be opened", "End what listens there."):
            super().__init__(("", port()), WorkerConnection)
        threading.Thread(target=self.serve_forever, args=(STEP_NS / 1e9,), daemon=True).start()

    def verify_request(self, *_connection: object) -> bool:
        """Return whether one more stranger may wait; else it is closed."""
        return self.strangers.acquire(blocking=False)

    def present(self) -> list[WorkerConnection]:
        """Return those that are connected, at most `count`, in the order of their hosts."""
        there = [worker for worker in self.joined if not worker.lost]
        return sorted(there[: self.count], key=lambda worker: worker.host)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class FarDevices(Clients):
    """The devices of one sending as the controller asks: all of its messages come from workers."""

    def __init__(self, workers: DeviceWorkers, order: Order) -> None:
        super().__init__([])
        self._workers, self._order = workers, order
        self._chosen: list[WorkerConnection] = []

    def connect(self, timeout_s: float) -> bool:
        """Return whether every worker is connected to every broker. Raises CutShort where workers are missing."""
        end_ns = perf_counter_ns() + int(timeout_s * 1e9)
        while len(self._workers.present()) < self._workers.count:
            if perf_counter_ns() > end_ns:
                there = ", ".join(worker.host for worker in self._workers.present()) or "none"
                raise CutShort(f"{self._workers.count} device workers wanted, there after {timeout_s:g} s: {there}")
            self.wait(perf_counter_ns() + STEP_NS)
        self._chosen = self._workers.present()
        for number, worker in enumerate(self._chosen):
            worker.reported = {}
            worker.order(order=asdict(self._order), name=f"{number}-", timeout_s=timeout_s)
        self._wait_for("ready", timeout_s)
        return all(worker.reported.get("ready") for worker in self._chosen)

    @property
    def last_error(self) -> str:
        """Why the first worker that is not ready is not."""
        away = (one for one in self._chosen if not one.reported.get("ready"))
        return next((f"device worker on {one.host}: {one.reported.get('error') or 'lost'}" for one in away), "")

    @property
    def disconnects(self) -> int:
        """How often a worker lost a connection to a broker."""
        return sum(worker.reported.get("disconnects", 0) for worker in self._chosen)

    def send(self, store: SampleStore, rows: range, interval_ns: int) -> None:
        """Have `rows` sent, `interval_ns` apart in all; return when every worker has reported or is lost."""
        count = len(self._chosen)
        ends = [len(rows) * at // count for at in range(count + 1)]
        for at, worker in enumerate(self._chosen):
            share = rows[ends[at] : ends[at + 1]]
            worker.begin(store, share, at * interval_ns, interval_ns=count * interval_ns)
        self._wait_for("times", SLOW * len(rows) * interval_ns / 1e9)

    def close(self) -> None:
        """End the order of every worker; what it counted until then is in `reported`."""
        for worker in self._chosen:
            worker.order(end=True)
        self._wait_for("ended")

    def settle(self, store: SampleStore) -> tuple[list[str], list[dict[str, Any]]]:
        """Write what the workers report into their rows, on the controller's clock, once the table was read.

        A lost worker's rows keep the planned times. It has sent all up to its last stored row: of the rest nobody
        knows. Return what is wrong with each share, and what a cell of run.json holds of workers.
        """
        faults, state, entries = [], store["state"], []
        for number, worker in enumerate(self._chosen, 1):
            reported, rows, fault = worker.reported, worker.rows, ""
            error_ns = (reported.get("begun", worker.begin_ns) - worker.begin_ns) // 2
            stored = [row for row in rows if state[row] not in (NOT_SENT, WAITING)]
            sent = len(rows)
            if "times" in reported:
                for name, times in reported["times"].items():
                    for row, time_ns in zip(rows, times, strict=True):
                        store[name][row] = ABSENT if time_ns == ABSENT else worker.begin_ns + error_ns + time_ns
            else:
                sent = stored[-1] + 1 - rows.start if stored else 0
                for row in rows[sent:]:
                    state[row] = NOT_SENT
                fault = f"was lost: {sent} of {len(rows)} messages sent, {len(stored)} stored"
                faults.append(f"device worker {number} on {worker.host} {fault}")
            entries.append({
                "host": worker.host,
                "sent": sent,
                "stored": len(stored),
                "start_error_us": round(error_ns / 1000, 3),
                **{name: reported.get(name) for name in ("scheduling", "tcp_nodelay")},
                "fault": fault,
            })  # fmt: skip
        return faults, entries

    def _wait_for(self, report: str, planned_s: float = 0) -> None:
        """Wait until every worker has reported so or is lost; LOST_S beyond the planned time at most."""
        end_ns = perf_counter_ns() + (planned_s + LOST_S) * 1e9
        while perf_counter_ns() < end_ns and not all(report in one.reported or one.lost for one in self._chosen):
            self.wait(perf_counter_ns() + STEP_NS)
