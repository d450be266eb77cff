"""The round trip to a peer by ICMP echo, which every kernel answers: the links, seen from outside the back end.

Linux's ICMP datagram sockets need no capability if net.ipv4.ping_group_range holds this group (as the engine sets it in
containers).
"""

import contextlib
import select
import socket
import struct
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from looplab.link.distributions import Delays

INTERVAL_NS = 10_000_000
MOST_PINGS = 1000
# An answer may take so long beyond the delay of the links.
WAIT_S = 1.0
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
# Type, code, checksum (the kernel's work), identifier (the kernel's), sequence; then when it was sent.
_ECHO = struct.Struct("!BBHHHQ")
_MOST_BYTES = 2048


def ping(address: str, count: int, wait_s: float = WAIT_S) -> dict[str, Any] | None:
    """Return n, lost, mean, sd, ... in ms of `count` round trips, 10 ms apart; None if this group may not ask."""
    try:
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    except PermissionError:
        return None
    delays = Delays()

    def record(data: bytes, now_ns: int) -> bool:
        if len(data) >= _ECHO.size:
            kind, _, _, _, _, sent_ns = _ECHO.unpack_from(data)
            if kind == _ECHO_REPLY:
                delays.add(now_ns - sent_ns)
        return delays.count == count

    with ours:
        ours.connect((address, 0))
        start_ns = perf_counter_ns()
        for sequence in range(count):
            receive(ours, start_ns + sequence * INTERVAL_NS, record)
            with contextlib.suppress(OSError):
                ours.send(_ECHO.pack(_ECHO_REQUEST, 0, 0, 0, sequence, perf_counter_ns()))
        if delays.count < count:
            receive(ours, perf_counter_ns() + int(wait_s * 1e9), record)
    return {**delays.as_json(), "lost": count - delays.count}


def receive(ours: socket.socket, until_ns: int, take: Callable[[bytes, int], bool]) -> None:
    """Hand each datagram and when it came to `take`, until `until_ns` (monotonic) or until `take` returns True."""
    while (left_ns := until_ns - perf_counter_ns()) > 0:
        if select.select([ours], [], [], left_ns / 1e9)[0]:
            # A peer that is away makes recv fail; losses are counted.
            with contextlib.suppress(OSError):
                if take(ours.recv(_MOST_BYTES), perf_counter_ns()):
                    return
