"""The round trip to a peer by ICMP echo, which every kernel answers: the links, seen from outside the back end.

Over Linux's ICMP datagram sockets, which need no capability where net.ipv4.ping_group_range lets this group (as
the engine sets it in containers).
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from time import perf_counter_ns
from typing import Any

from looplab.link.figures import Delays

INTERVAL_NS = 10_000_000
WAIT_S = 1.0
MOST_PINGS = 1000
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
# Type, code, checksum (the kernel's work), identifier (the kernel's), sequence; then when it was sent.
_ECHO = struct.Struct("!BBHHHQ")


def ping(address: str, count: int, wait_s: float = WAIT_S) -> dict[str, Any] | None:
    """n, lost, mean, sd, ... in ms of `count` round trips, 10 ms apart; None where this group may not ask."""
    try:
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    except PermissionError:
        return None
    delays = Delays()
    answered: set[int] = set()
    with ours:
        ours.connect((address, 0))
        start_ns = perf_counter_ns()
        for sequence in range(count):
            _listen(ours, start_ns + sequence * INTERVAL_NS, delays, answered, count)
            with contextlib.suppress(OSError):
                ours.send(_ECHO.pack(_ECHO_REQUEST, 0, 0, 0, sequence, perf_counter_ns()))
        _listen(ours, perf_counter_ns() + int(wait_s * 1e9), delays, answered, count)
    return {**delays.as_json(), "lost": count - len(answered)}


def _listen(ours: socket.socket, until_ns: int, delays: Delays, answered: set[int], count: int) -> None:
    """Note answers until the time has come, or all are there; a copy's second answer does not count."""
    while len(answered) < count and (left_ns := until_ns - perf_counter_ns()) > 0:
        if not select.select([ours], [], [], left_ns / 1e9)[0]:
            continue
        with contextlib.suppress(OSError, struct.error):
            data = ours.recv(2048)
            now_ns = perf_counter_ns()
            kind, _, _, _, sequence, sent_ns = _ECHO.unpack_from(data)
            if kind == _ECHO_REPLY and sequence not in answered:
                answered.add(sequence)
                delays.add(now_ns - sent_ns)
