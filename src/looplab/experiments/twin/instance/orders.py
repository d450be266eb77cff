"""What a sending is: its order, and what each worker of the instance counts. The files survive the instance."""

import json
import mmap
import os
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path

ORDER_FILE = "instance.json"
COUNTS_FILE = "instance.bin"
MOST_WORKERS = 16


class WorkerCount(IntEnum):
    """What each worker counts; times in ns. `READY` is 1 while it is subscribed and can reach the database."""

    READY, STARTS, MALFORMED, DISCONNECTS, DATABASE_ERRORS, UNACKNOWLEDGED_MAX = range(6)
    SLEEP_NS, SESSION_NS, STORE_NS = range(6, 9)


@dataclass(frozen=True)
class Order:
    """One sending: what `devices` send to `brokers`, and the instance, with so many `workers` for each broker, stores.

    The instance handles rows `first` … `last` of the samples. `cpus` are the processors of each broker's machine, for
    its workers; empty: any. Several workers of a broker share one subscription: each message goes to one of them.
    """

    token: str
    cell: int
    brokers: list[tuple[str, int]]
    qos: int
    write_mode: str
    tcp_nodelay: bool
    workers: int = 1
    devices: int = 1
    payload_bytes: int = 64
    first: int = 0
    last: int = 0
    cpus: list[list[int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of workers; worker k takes from broker k % brokers."""
        return len(self.brokers) * self.workers

    def write(self, folder: Path) -> None:
        """Open the order: the instance starts its workers."""
        fresh = folder / f"{ORDER_FILE}.new"
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(folder / ORDER_FILE)


def read_order(folder: Path) -> Order | None:
    """Return the order that is open, None if there is none."""
    try:
        return Order(**json.loads((folder / ORDER_FILE).read_text()))
    except FileNotFoundError:
        return None


def end_order(folder: Path) -> None:
    """Close the open order: the instance ends its workers."""
    (folder / ORDER_FILE).unlink(missing_ok=True)


class WorkerCounts:
    """A row of counts for each worker, in a file that outlives it."""

    def __init__(self, folder: Path) -> None:
        size = 8 * MOST_WORKERS * len(WorkerCount)
        fd = os.open(folder / COUNTS_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            self._numbers = memoryview(mmap.mmap(fd, size)).cast("q")
        finally:
            os.close(fd)

    def row(self, worker: int) -> memoryview:
        """Return one worker's counts, in the order of WorkerCount."""
        return self._numbers[worker * len(WorkerCount) : (worker + 1) * len(WorkerCount)]

    def each(self, count: WorkerCount) -> list[int]:
        """Return what each worker counted, 0 of one that there is not."""
        return [self.row(worker)[count] for worker in range(MOST_WORKERS)]

    def clear(self) -> None:
        self._numbers[:] = memoryview(bytes(self._numbers.nbytes)).cast("q")
