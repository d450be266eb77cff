"""Where one run's raw samples live: preallocated integer columns, optionally a file others may map.

The controller writes each number once into memory it touched before the run; the exporter maps the same
file (on a tmpfs) and reads it, so a live view costs the measuring process nothing.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path

MAGIC = b"LOOPLAB2"
HEADER_BYTES = 4096
ABSENT = -1

# One 64-bit integer a message and column; times are monotonic ns of the controller, ABSENT where unknown.
COLUMNS = (
    "due_ns",
    "sent_ns",
    "received_ns",
    "robot_ns",
    "wire_sent_ns",
    "wire_received_ns",
    "wire_robot_ns",
    "wait_ns",
    "state",
)

# Values of the column `state`.
NOT_SENT, WAITING, ANSWERED, LATE, ROBOT_ERROR = range(5)


class SampleStore:
    """`count` rows of COLUMNS; `store["due_ns"][k]` is message k's. In a file where `path` is given."""

    def __init__(self, count: int, path: Path | None = None) -> None:
        size = HEADER_BYTES + 8 * count * len(COLUMNS)
        if path is None:
            self._map = mmap.mmap(-1, size)
        else:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                os.posix_fallocate(fd, 0, size)
                self._map = mmap.mmap(fd, size)
            finally:
                os.close(fd)
        self.count = count
        self._map[:16] = MAGIC + struct.pack("<Q", count)
        self._columns = _columns(self._map, count)
        for name, column in self._columns.items():
            fill = NOT_SENT if name == "state" else ABSENT
            column[:] = memoryview(struct.pack("<q", fill) * count).cast("q")

    def __getitem__(self, name: str) -> memoryview:
        return self._columns[name]


def read_store(path: Path) -> Mapping[str, memoryview]:
    """The columns of a store another process writes (each a memoryview of int64, length = messages).

    Raises ValueError where the file is no sample store, OSError where it cannot be read.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(mapped) < HEADER_BYTES or mapped[:8] != MAGIC:
        raise ValueError(f"{path} is not a sample store of this version")
    (count,) = struct.unpack("<Q", mapped[8:16])
    if len(mapped) < HEADER_BYTES + 8 * count * len(COLUMNS):
        raise ValueError(f"{path} is shorter than its header says")
    return _columns(mapped, count)


def _columns(mapped: mmap.mmap, count: int) -> dict[str, memoryview]:
    whole = memoryview(mapped)
    start = HEADER_BYTES
    columns = {}
    for name in COLUMNS:
        columns[name] = whole[start : start + 8 * count].cast("q")
        start += 8 * count
    return columns
