"""What the bridge shows other processes of its machine, without the network: two small files in memory.

`bridge.json` holds how it is set up and connected (rewritten when that changes, at idle moments), `counts.bin` its
counters as they grow: 64-bit integers, the monotonic ns of the bridge's last turn first. Reading them costs the
bridge nothing, so its metrics are another process's work (metrics.py).
"""

import json
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import Any, NamedTuple

STATE_FILE, COUNTS_FILE = "bridge.json", "counts.bin"
# The bridge turns its loop at least each 0.3 s.
SILENCE_NS = 2_000_000_000


class BridgeCounts(dict[str, int]):
    """The bridge's counters, written through to `counts.bin` of `folder` (None: kept here alone)."""

    def __init__(self, names: Iterable[str], folder: Path | None = None) -> None:
        super().__init__(dict.fromkeys(names, 0))
        size = 8 * (1 + len(self))
        self._folder = folder
        self._cells = memoryview(_map(folder / COUNTS_FILE, size) if folder else bytearray(size)).cast("q")
        self._index = {name: number for number, name in enumerate(self, 1)}
        self._written = ""

    def __setitem__(self, name: str, value: int) -> None:
        super().__setitem__(name, value)
        self._cells[self._index[name]] = value

    def beat(self, now_ns: int) -> None:
        """Record that the bridge is alive at `now_ns` (monotonic)."""
        self._cells[0] = now_ns

    def write_state(self, state: dict[str, Any]) -> None:
        """Write `bridge.json` if `state` has changed; a full or missing folder must not stop the bridge."""
        if self._folder is None:
            return
        text = json.dumps({**state, "counts": list(self)})
        if text == self._written:
            return
        fresh = self._folder / f"{STATE_FILE}.new"
        try:
            fresh.write_text(text)
            fresh.replace(self._folder / STATE_FILE)
        except OSError:
            return
        self._written = text


class BridgeState(NamedTuple):
    """`facts` is bridge.json's object, `beat_ns` the monotonic ns of the bridge's last turn."""

    facts: dict[str, Any]
    counts: dict[str, int]
    beat_ns: int


def read(folder: Path) -> BridgeState | None:
    """Return the bridge's state, None if there is no bridge or it was silent for SILENCE_NS."""
    try:
        facts = json.loads((folder / STATE_FILE).read_text())
        cells = (folder / COUNTS_FILE).read_bytes()
        names = facts["counts"]
        beat_ns, *values = struct.unpack(f"={1 + len(names)}q", cells)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
    if clock_gettime_ns(CLOCK_MONOTONIC) - beat_ns > SILENCE_NS:
        return None
    return BridgeState(facts, dict(zip(names, values, strict=True)), beat_ns)


def _map(path: Path, size: int) -> mmap.mmap:
    """Map a new file for each bridge: a process that still maps the former one's keeps that."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)
