"""Devices on other machines: each worker sends its share of a cell, and the controller merges what the workers report.

No clock is compared. A worker's times count from its start, which lies between the order to begin and the answer to it:
half of that round trip is the error of every time that a worker reports.
"""

import contextlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError
from looplab.run.accounting import summarise
from looplab.run.cells import CutShort
from looplab.run.clients import Clients
from looplab.run.samples import ABSENT, NOT_SENT, WAITING, SampleStore
from looplab.system.json_client import read_token

PORT = 9108
# A worker is lost after this silence. An engine that was cut off looks for the others only each 60 s
# (rejoinClusterInterval in moby's networkdb).
LOST_NS = 90_000_000_000
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


class WorkerConnection:
    """A connection: `host` is its machine once it has shown the token, `reported` what came since the last order.

    It sends the messages of `rows`, `sent` of them so far; its times are exact to `error_ns`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.host = ""
        self.reported: dict[str, Any] = {}
        self.rows = range(0)
        self.sent = self.error_ns = 0
        self.fault = ""
        self._connection = connection
        self._reported_ns = self._begin_ns = perf_counter_ns()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def stranger(self) -> bool:
        """Whether it has not shown the token, and still may."""
        return not self.host and not self._ended

    @property
    def lost(self) -> bool:
        """Whether its connection has ended, or it has not reported for LOST_NS."""
        return self._ended or perf_counter_ns() - self._reported_ns > LOST_NS

    @property
    def disconnects(self) -> int:
        """How often it lost a connection to a broker."""
        return int(self.reported.get("disconnects", 0))

    def order(self, **order: Any) -> None:
        """Send one order; that the connection has ended shows in `lost`."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(order).encode() + b"\n")

    def begin(self, store: SampleStore, rows: range, lead_ns: int, **begin: Any) -> None:
        """Have `rows` sent; until the worker reports, they have the planned times."""
        self.rows, self.fault = rows, ""
        first_ns = perf_counter_ns() + lead_ns
        for number, row in enumerate(rows):
            at_ns = first_ns + number * begin["interval_ns"]
            store["due_ns"][row] = store["intended_ns"][row] = store["sent_ns"][row] = at_ns
            store["state"][row] = WAITING
        self._begin_ns = perf_counter_ns()
        self.order(begin={"first": rows.start, "count": len(rows), "lead_ns": lead_ns, **begin})

    def merge(self, store: SampleStore) -> None:
        """Write its times into its rows, on the controller's clock; a lost one keeps the planned times."""
        self.error_ns = (int(self.reported.get("begun", self._begin_ns)) - self._begin_ns) // 2
        self.sent = int(self.reported.get("sent", 0))
        times = self.reported.get("times")
        if times is None:
            self.fault = "was lost"
        elif {len(times[name]) for name in TIMES} != {len(self.rows)}:
            self.fault = "reported other messages than its own"
            del self.reported["times"]
        else:
            for name in TIMES:
                for row, time_ns in zip(self.rows, times[name], strict=True):
                    store[name][row] = ABSENT if time_ns == ABSENT else self._begin_ns + self.error_ns + time_ns

    def close(self) -> None:
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, MachineError), self._connection.makefile("rb") as lines:
            self._connection.settimeout(FIRST_S)
            token, _, host = lines.readline(FIRST_BYTES).decode("ascii").strip().partition(" ")
            if not hmac.compare_digest(token, own_token()):
                raise ConnectionError
            self._connection.settimeout(None)
            self.host = host
            for line in lines:
                report = json.loads(line)
                if "begun" in report:
                    report["begun"] = perf_counter_ns()
                self.reported |= report
                self._reported_ns = perf_counter_ns()
        self._ended = True
        self._connection.close()


class DeviceWorkers:
    """Accepts the workers of a run, which need `count` of them."""

    def __init__(self, count: int) -> None:
        """Listen. Raises MachineError where the port is taken, or without a token."""
        own_token()
        self.count = count
        self._all: list[WorkerConnection] = []
        try:
            self._server = socket.create_server(("", port()))
        except OSError as error:
            why = f"Port {port()} cannot be opened: {error.strerror}."
            raise MachineError(why, "End what listens there.") from error
        threading.Thread(target=self._accept, daemon=True).start()

    def present(self) -> list[WorkerConnection]:
        """Return those that are connected and have named their host, at most `count`, in the order of their hosts."""
        there = [worker for worker in self._all if worker.host and not worker.lost]
        return sorted(there[: self.count], key=lambda worker: worker.host)

    def close(self) -> None:
        self._server.close()
        for worker in self._all:
            worker.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._server.accept()[0]
                self._all = [worker for worker in self._all if worker.host or worker.stranger]
                if sum(worker.stranger for worker in self._all) < MOST_STRANGERS:
                    self._all.append(WorkerConnection(connection))
                else:
                    connection.close()


class FarDevices(Clients):
    """The devices of one sending as looplab.experiments.twin.sending asks: all of its messages come from workers.

    `order` is what every worker gets: the arguments of Devices.
    """

    def __init__(self, workers: DeviceWorkers, order: Mapping[str, Any]) -> None:
        super().__init__([])
        self._workers, self._order = workers, order
        self._chosen: list[WorkerConnection] = []

    def begin(self, token: str, cell: int) -> None:
        """Send to the topics of this cell from now on."""
        self._order = {**self._order, "token": token, "cell": cell}

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
            worker.order(order={**self._order, "name": f"{number}-", "timeout_s": timeout_s})
        self._wait_for("ready")
        return all(worker.reported.get("ready") for worker in self._chosen)

    @property
    def last_error(self) -> str:
        """Why the first worker that is not ready is not."""
        away = (one for one in self._chosen if not one.reported.get("ready"))
        return next((f"device worker on {one.host}: {one.reported.get('error') or 'lost'}" for one in away), "")

    @property
    def disconnects(self) -> int:
        """How often a worker lost a connection to a broker."""
        return sum(worker.disconnects for worker in self._chosen)

    def send(self, store: SampleStore, rows: range, interval_ns: int, qos: int, *, sleeps: bool) -> None:
        """Have `rows` sent, `interval_ns` apart in all, and write what each worker reports into `store`.

        Returns when every worker has reported or is lost.
        """
        count = len(self._chosen)
        ends = [len(rows) * at // count for at in range(count + 1)]
        for at, worker in enumerate(self._chosen):
            share = rows[ends[at] : ends[at + 1]]
            worker.begin(store, share, at * interval_ns, interval_ns=count * interval_ns, qos=qos, sleeps=sleeps)
        self._wait_for("times")
        for worker in self._chosen:
            worker.merge(store)

    def close(self) -> None:
        """End the order of every worker; what it counted until then is in `reported`."""
        for worker in self._chosen:
            worker.order(end=True)
        self._wait_for("ended", perf_counter_ns() + LOST_NS)

    def settle(self, store: SampleStore) -> tuple[list[str], dict[str, Any]]:
        """Decide, once the table was read, which rows of a lost worker were sent.

        Sent is what the worker had reported, and all up to its last stored row. Of the rest nobody knows. Return what
        is wrong with each share, and what a cell of run.json holds of the workers.
        """
        faults, state, entries, late_ns = [], store["state"], [], []
        for number, worker in enumerate(self._chosen, 1):
            stored = [row for row in worker.rows if state[row] not in (NOT_SENT, WAITING)]
            if worker.fault:
                worker.sent = max([worker.sent, *(row + 1 - worker.rows.start for row in stored[-1:])])
                for row in worker.rows[worker.sent :]:
                    state[row] = NOT_SENT
                worker.fault += f": {worker.sent} of {len(worker.rows)} messages sent, {len(stored)} stored"
                faults.append(f"device worker {number} on {worker.host} {worker.fault}")
            if "times" in worker.reported:
                sent = worker.rows[: worker.sent]
                late_ns += [store["sent_ns"][row] - store["due_ns"][row] for row in sent]
            entries.append({
                "host": worker.host,
                "sent": worker.sent,
                "stored": len(stored),
                "disconnects": worker.disconnects,
                "start_error_us": round(worker.error_ns / 1000, 3),
                **{name: worker.reported.get(name) for name in ("scheduling", "tcp_nodelay")},
                "fault": worker.fault,
            })  # fmt: skip
        return faults, {"device_workers": entries, "device_lateness_us": summarise(late_ns)}

    def _wait_for(self, report: str, end_ns: float = float("inf")) -> None:
        """Wait until every worker has reported so or is lost."""
        while perf_counter_ns() < end_ns and not all(report in one.reported or one.lost for one in self._chosen):
            self.wait(perf_counter_ns() + STEP_NS)
