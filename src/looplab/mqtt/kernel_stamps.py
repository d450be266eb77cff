"""The kernel's own time stamps of a TCP socket: when bytes came from the network, when they went to it.

Linux's SO_TIMESTAMPING, see Documentation/networking/timestamping.rst. A stamp is in CLOCK_REALTIME; it becomes
monotonic by the distance of the two clocks, which changes only when the clock is set: then the stamp is rejected.
"""

import socket
import struct
from collections.abc import Sequence
from time import perf_counter_ns, time_ns

# SO_TIMESTAMPING_NEW of asm-generic/socket.h: seconds of 64 bits on every machine. Its messages have the same type.
SO_TIMESTAMPING = 65
MSG_ERRQUEUE = 0x2000
IP_RECVERR, IPV6_RECVERR = 11, 25
# linux/net_tstamp.h. TX_SCHED, before the queue of the network device: every device has it, TX_SOFTWARE has not.
# OPT_ID counts bytes from here on, so it is set before the first one is sent. OPT_TSONLY returns no data.
TX_SCHED, RX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 8, 1 << 3, 1 << 4, 1 << 7, 1 << 11
ARRIVAL_BYTES, DEPARTURE_BYTES = 64, 256
ABSENT = -1
# The count of segments is unknown; with -2 the next read never counts as one segment more.
_UNKNOWN = -2

# Of three struct timespec the first is the software's.
_STAMP = struct.Struct("=qq")
# Of struct tcp_info (linux/tcp.h): bytes received in order, segments received with data, those out of order.
_INFO = struct.Struct("=128xQ16xI68xI")
# Of struct sock_extended_err: errno, origin, type, code, pad, info, data (here the number of the last byte).
_ERROR = struct.Struct("=IBBBxII")

Ancillary = Sequence[tuple[int, int, bytes]]


def request(sock: socket.socket) -> str:
    """Have the kernel stamp what enters and leaves `sock` from now on; return why it does not, "" if it does.

    A kernel that stamped for no socket before stamps arrivals a moment later (static key, switched by a work queue).
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED | RX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY)
    except OSError as error:
        return f"SO_TIMESTAMPING: {error.strerror}"
    return ""


class RealtimeClock:
    """Translates stamps of CLOCK_REALTIME to the monotonic clock of perf_counter_ns."""

    def __init__(self) -> None:
        self._distance_ns, self._width_ns = _distance()

    def stamp(self, ancillary: Ancillary) -> int:
        """Return the stamp among control messages in monotonic ns; ABSENT without one, or if the clock was set."""
        for _level, kind, data in ancillary:
            if kind == SO_TIMESTAMPING and len(data) >= _STAMP.size:
                seconds, ns = _STAMP.unpack_from(data)
                return self._monotonic(seconds * 1_000_000_000 + ns) if seconds else ABSENT
        return ABSENT

    def _monotonic(self, stamp_ns: int) -> int:
        distance_ns, width_ns = _distance()
        was_set = abs(distance_ns - self._distance_ns) > width_ns + self._width_ns
        # The narrowest reading is the most exact one; an interrupted thread makes a wide one.
        if was_set or width_ns < self._width_ns:
            self._distance_ns, self._width_ns = distance_ns, width_ns
        return ABSENT if was_set else stamp_ns - self._distance_ns


class Segments:
    """Counts the TCP segments of a connection behind each read, from its first byte on."""

    def __init__(self) -> None:
        self._bytes = self._segments = self._out_of_order = 0

    def one(self, sock: socket.socket, size: int) -> bool:
        """Return whether the `size` bytes that were just read came in one segment; False where that is unknown.

        It is known if nothing arrived between this read and this call, and likewise at the read before.
        """
        self._bytes += size
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        if len(info) < _INFO.size:
            return False
        received, segments, out_of_order = _INFO.unpack(info)
        settled = received == self._bytes and out_of_order == self._out_of_order
        single = settled and segments == self._segments + 1
        self._segments, self._out_of_order = segments if settled else _UNKNOWN, out_of_order
        return bool(single)


def received_bytes(sock: socket.socket) -> int | None:
    """Return how many bytes TCP has received in order, None where the kernel does not say."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    return int(_INFO.unpack(info)[0]) if len(info) == _INFO.size else None


def last_byte(ancillary: Ancillary) -> int:
    """Return the number (32 bits) of the byte that a departure's stamp is for, ABSENT if it is of something else."""
    for level, kind, data in ancillary:
        if (level, kind) in ((socket.IPPROTO_IP, IP_RECVERR), (socket.IPPROTO_IPV6, IPV6_RECVERR)):
            return int(_ERROR.unpack_from(data)[5])
    return ABSENT


def _distance() -> tuple[int, int]:
    """Return CLOCK_REALTIME - CLOCK_MONOTONIC, and within how many ns they were read."""
    before, real, after = perf_counter_ns(), time_ns(), perf_counter_ns()
    return real - (before + after) // 2, after - before
