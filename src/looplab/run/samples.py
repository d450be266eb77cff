"""Where one run's raw samples live: preallocated integer columns, optionally a file others may map.

The controller writes each number once, into memory that it touched before the run. The exporter reads the same file
on a tmpfs, so a live view costs the measuring process nothing. The file's header names its columns.
"""

import mmap
import os
import struct
from pathlib import Path

MAGIC = b"LOOPLAB3"
HEADER_BYTES = 4096
ABSENT = -1

# One 64-bit integer a message and column; times are monotonic ns of the controller, ABSENT where unknown.
# `intended_ns` is start + k * interval; `wire_*` in user space around the socket, `left_ns` and `arrived_ns` by the
# kernel.
_SENT = ("due_ns", "intended_ns", "sent_ns", "wire_sent_ns", "left_ns")
COLUMNS = (*_SENT, "received_ns", "wire_received_ns", "arrived_ns", "state")

# Values of the column `state`; one that FAILED was answered, with an error.
NOT_SENT, WAITING, ANSWERED, LATE, FAILED = range(5)

# How long after its deadline an answer counts as late at least.
LATE_NS = 1_000_000_000


class SharedSamples:
    """The rows of a SampleStore's file, for another process that writes into them.

    Raises OSError or ValueError where there is no such file.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._share(*store_columns(self._map[:HEADER_BYTES]))

    def _share(self, count: int, names: tuple[str, ...]) -> None:
        self.count, memory = count, memoryview(self._map)
        starts = [HEADER_BYTES + 8 * count * at for at in range(len(names))]
        self._columns = {
            name: memory[start : start + 8 * count].cast("q") for name, start in zip(names, starts, strict=True)
        }

    def __getitem__(self, name: str) -> memoryview:
        return self._columns[name]


class SampleStore(SharedSamples):
    """`count` rows of COLUMNS and of `more` of the experiment's own; `store["due_ns"][k]` is message k's.

    In a file where `path` is given. Raises OSError where it has no room.
    """

    def __init__(self, count: int, path: Path | None = None, more: tuple[str, ...] = ()) -> None:
        columns = (*COLUMNS, *more)
        size = HEADER_BYTES + 8 * count * len(columns)
        if path is None:
            self._map = mmap.mmap(-1, size)
        else:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                os.posix_fallocate(fd, 0, size)
                self._map = mmap.mmap(fd, size)
            finally:
                os.close(fd)
        header = MAGIC + struct.pack("<Q", count) + " ".join(columns).encode() + b"\n"
        self._map[: len(header)] = header
        self._share(count, columns)
        self.clear(range(count))

    def clear(self, rows: range) -> None:
        """Make `rows` as they are before anything was sent."""
        for name, column in self._columns.items():
            fill = struct.pack("<q", NOT_SENT if name == "state" else ABSENT)
            column[rows.start : rows.stop] = memoryview(fill * len(rows)).cast("q")


def limit_ns(deadline_ms: int) -> int:
    """Return how long after its message an answer counts at all, late or in time: the same for each of a run."""
    deadline_ns = deadline_ms * 1_000_000
    return deadline_ns + max(deadline_ns, LATE_NS)


def store_columns(header: bytes) -> tuple[int, tuple[str, ...]]:
    """Return (rows, names of columns in their order) of a store's header. Raises ValueError for anything else."""
    names, end, _ = header[16:HEADER_BYTES].partition(b"\n")
    if header[:8] != MAGIC or not end:
        raise ValueError("not a sample store of this version")
    return struct.unpack("<Q", header[8:16])[0], tuple(names.decode("ascii").split())
