"""Devices on other machines: each worker sends its share of a cell, and the controller merges what the workers report.

No clock is compared. A worker's times count from its start, which lies between the order to begin and the answer to it:
half of that round trip is the error of every time that a worker reports.
"""

import array
import base64
import contextlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError
from looplab.run.cells import CutShort
from looplab.run.clients import Clients
from looplab.run.samples import ABSENT, NOT_SENT, WAITING, SampleStore
from looplab.system.histogram import merge_reports
from looplab.system.json_client import read_token

PORT = 9108
# A worker that is silent for so long is lost. An engine whose node was away looks for the others each 60 s
# (rejoinClusterInterval in moby's networkdb).
LOST_NS = 90_000_000_000
STEP_NS = 20_000_000
# The line with which a worker begins, and how soon.
FIRST_BYTES, FIRST_S = 1000, 5.0
# What a worker reports of each message, in ns from its start.
TIMES = ("due_ns", "intended_ns", "sent_ns", "wire_sent_ns", "left_ns")


def port() -> int:
    """Return the port on which the controller waits for workers: DEVICE_PORT or PORT."""
    return int(os.environ.get("DEVICE_PORT") or PORT)


def own_token() -> str:
    """Return the token of this start of the lab. Raises MachineError if DEVICE_TOKEN_FILE holds none."""
    if token := read_token(os.environ.get("DEVICE_TOKEN_FILE", "")):
        return token
    raise MachineError("There is no token for device workers.", "`docker compose up` has `prepare` write one.")


class Worker:
    """A connection: `host` is its machine once it has shown the token, `reported` what came since the last order."""

    def __init__(self, connection: socket.socket) -> None:
        self.host = ""
        self.reported: dict[str, Any] = {}
        self._connection = connection
        self._reported_ns = perf_counter_ns()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def lost(self) -> bool:
        """Whether its connection has ended, or it has not reported for LOST_NS."""
        return self._ended or perf_counter_ns() - self._reported_ns > LOST_NS

    def send(self, **order: Any) -> None:
        """Send one order; that the connection has ended shows in `lost`."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(order).encode() + b"\n")

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
        self._all: list[Worker] = []
        try:
            self._server = socket.create_server(("", port()))
        except OSError as error:
            why = f"Port {port()} cannot be opened: {error.strerror}."
            raise MachineError(why, "End what listens there.") from error
        threading.Thread(target=self._accept, daemon=True).start()

    def present(self) -> list[Worker]:
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
                self._all.append(Worker(self._server.accept()[0]))


@dataclass
class Share:
    """What one worker has to send: `rows`; `start_ns` on the controller's clock is exact to `error_ns`."""

    worker: Worker
    rows: range
    begin_ns: int = 0
    start_ns: int = 0
    error_ns: int = 0
    sent: int = 0
    fault: str = ""


@dataclass
class FarDevices(Clients):
    """The devices of one sending as looplab.experiments.twin.sending asks: all of its messages come from workers.

    `order` is what every worker gets: the arguments of Devices.
    """

    workers: DeviceWorkers
    order: Mapping[str, Any]
    shares: list[Share] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__([])
        self._chosen: list[Worker] = []
        # How much later than due the messages left, of all workers.
        self.lateness = merge_reports({})

    def begin(self, token: str, cell: int) -> None:
        """Send to the topics of this cell from now on."""
        self.order = {**self.order, "token": token, "cell": cell}

    def connect(self, timeout_s: float) -> bool:
        """Return whether every worker is connected to every broker. Raises CutShort where workers are missing."""
        end_ns = perf_counter_ns() + int(timeout_s * 1e9)
        while len(self.workers.present()) < self.workers.count:
            if perf_counter_ns() > end_ns:
                there = ", ".join(worker.host for worker in self.workers.present()) or "none"
                raise CutShort(f"{self.workers.count} device workers wanted, there after {timeout_s:g} s: {there}")
            self.wait(perf_counter_ns() + STEP_NS)
        self._chosen = self.workers.present()
        for number, worker in enumerate(self._chosen):
            worker.reported = {}
            worker.send(order={**self.order, "name": f"{number}-", "timeout_s": timeout_s})
        while not all("ready" in worker.reported or worker.lost for worker in self._chosen):
            self.wait(perf_counter_ns() + STEP_NS)
        return all(worker.reported.get("ready") for worker in self._chosen)

    @property
    def last_error(self) -> str:
        """Why the first worker that is not ready is not."""
        away = (one for one in self._chosen if not one.reported.get("ready"))
        return next((f"device worker on {one.host}: {one.reported.get('error') or 'lost'}" for one in away), "")

    @property
    def disconnects(self) -> int:
        """How often a worker lost a connection to a broker."""
        return sum(int(share.worker.reported.get("disconnects", 0)) for share in self.shares)

    def send(self, store: SampleStore, rows: range, interval_ns: int, qos: int, *, sleeps: bool) -> None:
        """Have `rows` sent, `interval_ns` apart in all, and write what each worker reports into `store`.

        Returns when every worker has reported or is lost.
        """
        count = len(self._chosen)
        bounds = [rows.start + len(rows) * at // count for at in range(count + 1)]
        self.shares = [Share(one, range(*ends)) for one, ends in zip(self._chosen, pairwise(bounds), strict=True)]
        for at, share in enumerate(self.shares):
            self._plan(store, share, at * interval_ns, count * interval_ns)
            share.begin_ns = perf_counter_ns()
            share.worker.send(
                begin={"first": share.rows.start, "count": len(share.rows), "lead_ns": at * interval_ns,
                       "interval_ns": count * interval_ns, "qos": qos, "sleeps": sleeps}
            )  # fmt: skip
        while not all("done" in share.worker.reported or share.worker.lost for share in self.shares):
            self.wait(perf_counter_ns() + STEP_NS)
        for share in self.shares:
            _merge(store, share)
        done = {self._name(one): (one.sent, one.worker.reported.get("done", {}).get("lateness")) for one in self.shares}
        self.lateness = merge_reports(done)

    def close(self) -> None:
        """End the order of every worker; what it counted until then is in `reported`."""
        for worker in self._chosen:
            worker.send(end=True)
        end_ns = perf_counter_ns() + LOST_NS
        while not all("ended" in one.reported or one.lost for one in self._chosen) and perf_counter_ns() < end_ns:
            self.wait(perf_counter_ns() + STEP_NS)

    def settle(self, store: SampleStore) -> tuple[list[str], dict[str, Any]]:
        """Decide, once the table was read, which rows of a lost worker were sent.

        Sent is what the worker had reported, and all up to its last stored row. Of the rest nobody knows. Return what
        is wrong with each share, and what a cell of run.json holds of the workers.
        """
        faults, state = list(self.lateness.faults), store["state"]
        for share in self.shares:
            if share.fault:
                stored = [row for row in share.rows if state[row] not in (NOT_SENT, WAITING)]
                share.sent = max([share.sent, *(row + 1 - share.rows.start for row in stored[-1:])])
                for row in share.rows[share.sent :]:
                    state[row] = NOT_SENT
                share.fault += f": {share.sent} of {len(share.rows)} messages sent, {len(stored)} stored"
                faults.append(f"{self._name(share)} {share.fault}")
        workers = [
            {
                "host": share.worker.host,
                "sent": share.sent,
                "stored": sum(state[row] not in (NOT_SENT, WAITING) for row in share.rows),
                "disconnects": int(share.worker.reported.get("disconnects", 0)),
                "start_error_us": round(share.error_ns / 1000, 3),
                "scheduling": share.worker.reported.get("scheduling"),
                "tcp_nodelay": share.worker.reported.get("tcp_nodelay"),
                "fault": share.fault,
            }
            for share in self.shares
        ]
        return faults, {"device_workers": workers, "device_lateness_us": self.lateness.histogram.summary_us()}

    def _name(self, share: Share) -> str:
        return f"device worker {self.shares.index(share) + 1} on {share.worker.host}"

    def _plan(self, store: SampleStore, share: Share, lead_ns: int, interval_ns: int) -> None:
        """Write when each message is planned: the live view has it until the worker reports."""
        at_ns = perf_counter_ns() + lead_ns
        for row in share.rows:
            store["due_ns"][row] = store["intended_ns"][row] = store["sent_ns"][row] = at_ns
            store["state"][row] = WAITING
            at_ns += interval_ns


def _merge(store: SampleStore, share: Share) -> None:
    """Write a worker's times into its rows, on the controller's clock; a lost one keeps the planned times."""
    report = share.worker.reported
    begun_ns = int(report.get("begun", share.begin_ns))
    share.error_ns = (begun_ns - share.begin_ns) // 2
    share.start_ns = share.begin_ns + share.error_ns
    done = report.get("done")
    share.sent = int(report.get("sent", 0)) if done is None else int(done["sent"])
    if done is None:
        share.fault = "was lost"
        return
    if share.sent < len(share.rows):
        share.fault = "was stopped"
        for row in share.rows[share.sent :]:
            store["state"][row] = NOT_SENT
    times = {name: unpack(done["times"][name]) for name in TIMES}
    if {len(times_ns) for times_ns in times.values()} != {len(share.rows)}:
        share.fault = "reported other messages than its own"
        return
    for name, times_ns in times.items():
        column = store[name]
        for row, time_ns in zip(share.rows, times_ns, strict=True):
            column[row] = ABSENT if time_ns == ABSENT else share.start_ns + time_ns


def pack(times_ns: Sequence[int]) -> str:
    """Return a column of times as a worker reports it."""
    return base64.b64encode(array.array("q", times_ns).tobytes()).decode()


def unpack(text: str) -> Sequence[int]:
    """Return the times that `pack` wrote."""
    return array.array("q", base64.b64decode(text))
