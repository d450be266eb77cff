"""The round trip to a peer by ICMP echo, which every kernel answers: the links, seen from outside the back end.

Linux's ICMP datagram sockets need no capability if net.ipv4.ping_group_range holds this group (as the engine sets it in
containers).
"""

import contextlib
import socket
import struct
from time import perf_counter_ns
from typing import Any

from looplab.link.figures import Delays
from looplab.link.probe import WAIT_S, receive

INTERVAL_NS = 10_000_000
MOST_PINGS = 1000
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
# Type, code, checksum (the kernel's work), identifier (the kernel's), sequence; then when it was sent.
_ECHO = struct.Struct("!BBHHHQ")


def ping(address: str, count: int, wait_s: float = WAIT_S) -> dict[str, Any] | None:
    """Return n, lost, mean, sd, ... in ms of `count` round trips, 10 ms apart; None if this group may not ask."""
    try:
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    except PermissionError:
        return None
    delays = Delays()
    answered: set[int] = set()

    def record(data: bytes, now_ns: int) -> bool:
        if len(data) >= _ECHO.size:
            kind, _, _, _, sequence, sent_ns = _ECHO.unpack_from(data)
            # A copy's second answer does not count.
            if kind == _ECHO_REPLY and sequence not in answered:
                answered.add(sequence)
                delays.add(now_ns - sent_ns)
        return len(answered) == count

    with ours:
        ours.connect((address, 0))
        start_ns = perf_counter_ns()
        for sequence in range(count):
            receive(ours, start_ns + sequence * INTERVAL_NS, record)
            with contextlib.suppress(OSError):
                ours.send(_ECHO.pack(_ECHO_REQUEST, 0, 0, 0, sequence, perf_counter_ns()))
        if len(answered) < count:
            receive(ours, perf_counter_ns() + int(wait_s * 1e9), record)
    return {**delays.as_json(), "lost": count - len(answered)}
