#!/usr/bin/env python3
"""Serve a disk whose flush takes a given time: a file system of one file (FUSE), for a loop device to be put on.

The file's bytes are those of an image, kept in memory. Its time is that of the system it runs on, also within a virtual
machine that counts its own. One request at a time, under SCHED_FIFO where the kernel allows, so that no load delays it.
Ends when it is unmounted. Needs root, and nothing but Python.

    python3 bench/slow_disk.py IMAGE FILE FLUSH_MS
"""

import contextlib
import ctypes
import errno
import os
import struct
import sys
import time
from pathlib import Path

FIFO = 50
MOST_BYTES = 1 << 17
# linux/fuse.h
HEADER, ANSWER = struct.Struct("=IIQQ16x"), struct.Struct("=IiQ")
RANGE = struct.Struct("=QQI20x")
INIT_OUT = struct.Struct("=IIIIHHI40x")
ATTRIBUTES = struct.Struct("=QIIQQQ24x12xIIIIIII")
FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 2, 3, 4, 14, 15, 16
RELEASE, FSYNC, FLUSH, INIT, INTERRUPT, FORGET_MANY = 18, 20, 25, 26, 36, 42
BIG_WRITES = 1 << 5
SILENT = (FORGET, FORGET_MANY, INTERRUPT)
FOREVER_S = 3600
REGULAR = 0o100600


class Disk:
    """Answers FUSE's requests about the one file."""

    def __init__(self, content: bytearray, flush_s: float) -> None:
        self._content = content
        self._flush_s = flush_s
        self._answers = {
            INIT: lambda _: INIT_OUT.pack(7, 31, MOST_BYTES, BIG_WRITES, 0, 0, MOST_BYTES),
            GETATTR: self._attributes,
            SETATTR: self._attributes,
            OPEN: lambda _: bytes(16),
            READ: self._read,
            WRITE: self._write,
            FSYNC: self._fsync,
            FLUSH: lambda _: b"",
            RELEASE: lambda _: b"",
        }

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request, b"" where none is due."""
        _, code, number, _ = HEADER.unpack_from(request)
        if code in SILENT:
            return b""
        if code not in self._answers:
            return ANSWER.pack(ANSWER.size, -errno.ENOSYS, number)
        body = self._answers[code](request[HEADER.size :])
        return ANSWER.pack(ANSWER.size + len(body), 0, number) + body

    def _attributes(self, _body: bytes) -> bytes:
        size = len(self._content)
        return ATTRIBUTES.pack(FOREVER_S, 0, 0, 1, size, size // 512, REGULAR, 1, 0, 0, 0, 4096, 0)

    def _read(self, body: bytes) -> bytes:
        _, offset, size = RANGE.unpack_from(body)
        return bytes(self._content[offset : offset + size])

    def _write(self, body: bytes) -> bytes:
        _, offset, size = RANGE.unpack_from(body)
        self._content[offset : offset + size] = body[RANGE.size : RANGE.size + size]
        return struct.pack("=II", size, 0)

    def _fsync(self, _body: bytes) -> bytes:
        time.sleep(self._flush_s)
        return b""


def serve(disk: Disk, place: Path) -> None:
    """Mount `disk` over the file `place`, and serve it until it is unmounted. Raises OSError."""
    channel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={channel},rootmode={REGULAR:o},user_id=0,group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slow-disk", bytes(place), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"{place} cannot be mounted")
    while True:
        try:
            request = os.read(channel, MOST_BYTES + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            # A request that was interrupted meanwhile.
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise
            continue
        if answer := disk.answer(request):
            os.write(channel, answer)


def main() -> int:
    image, place, flush_ms = sys.argv[1:]
    # Refused where control groups ration real-time time: then a load makes a flush longer.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO))
    serve(Disk(bytearray(Path(image).read_bytes()), float(flush_ms) / 1000), Path(place))
    return 0


if __name__ == "__main__":
    sys.exit(main())
