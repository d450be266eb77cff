"""The packets of the printed clients as the kernel stamps them: each PUBLISH that leaves or enters this container."""

import socket
import struct
from collections.abc import Iterator
from time import perf_counter_ns
from typing import NamedTuple

from looplab.errors import MachineError
from looplab.mqtt import kernel_stamps
from looplab.mqtt.kernel_stamps import ABSENT, ARRIVAL_BYTES, RealtimeClock
from looplab.mqtt.packets import PacketBuffer, parse_publish

# linux/if_ether.h, linux/if_packet.h, linux/socket.h
ETH_P_ALL, ETH_P_IP, PACKET_OUTGOING, SOL_PACKET, PACKET_STATISTICS = 3, 0x0800, 4, 263, 6
BUFFER_BYTES, MOST_BYTES = 1 << 22, 1 << 16
_PORTS = struct.Struct("!HHI")
_SYN, _PUBLISH = 2, 3


class Publish(NamedTuple):
    """One PUBLISH; `leaves`: this container sends it. `stamp_ns` is monotonic."""

    leaves: bool
    topic: bytes
    payload: bytes
    qos: int
    stamp_ns: int


class _Stream:
    """One direction of a TCP connection; what was sent again counts once."""

    def __init__(self, begin: int) -> None:
        self._next, self._buffer = begin, PacketBuffer()

    def packets(self, sequence: int, data: bytes) -> list[bytes]:
        known = (self._next - sequence) & 0xFFFFFFFF
        if known >= 1 << 31:
            # There is a gap: drop the unfinished packet before it.
            self._buffer, known = PacketBuffer(), 0
        fresh = data[known:]
        if not fresh:
            return []
        self._next = (sequence + len(data)) & 0xFFFFFFFF
        return self._buffer.packets(fresh)


class Wire:
    """Holds what the kernel has captured until `read`. Raises LabError (exit code 3) without CAP_NET_RAW."""

    def __init__(self, broker_port: int) -> None:
        self._port = broker_port
        self._streams: dict[tuple[bytes, int], _Stream] = {}
        self._clock = RealtimeClock()
        self.dropped = self.unstamped = 0
        try:
            # Only a socket for all protocols sees the packets that leave.
            self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        except PermissionError:
            raise MachineError(
                "CLIENTS=printed measures by packets, and this controller may not capture any.",
                "Set FIDELITY or CLIENTS in the shell or .env: Compose chooses its files by them, not by params.env. A "
                "scenario of your own needs a line in compose/printed.yaml.",
            ) from None
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        kernel_stamps.request(self._sock)

    def read(self) -> Iterator[Publish]:
        """Yield what was captured since the last time."""
        while True:
            try:
                packet, ancillary, _flags, address = self._sock.recvmsg(MOST_BYTES, ARRIVAL_BYTES)
            except BlockingIOError:
                break
            if address[1] == ETH_P_IP and packet[9] == socket.IPPROTO_TCP:
                yield from self._of_packet(packet, address[2] == PACKET_OUTGOING, self._clock.stamp(ancillary))
        statistics = self._sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.dropped += struct.unpack("II", statistics)[1]

    def close(self) -> None:
        self._sock.close()

    def _of_packet(self, packet: bytes, leaves: bool, stamp_ns: int) -> Iterator[Publish]:
        begin = 4 * (packet[0] & 15)
        source, destination, sequence = _PORTS.unpack_from(packet, begin)
        # Leave out the padding of a short frame.
        data = packet[begin + 4 * (packet[begin + 12] >> 4) : int.from_bytes(packet[2:4], "big")]
        key = (packet[12:20], source << 16 | destination)
        if packet[begin + 13] & _SYN:
            self._streams.pop(key, None)
        # On loopback each packet is seen twice.
        if not data or self._port != (destination if leaves else source):
            return
        stream = self._streams.setdefault(key, _Stream(sequence))
        for one in stream.packets(sequence, data):
            if one[0] >> 4 == _PUBLISH:
                if stamp_ns == ABSENT:
                    # The clock was set meanwhile: take the time of reading.
                    self.unstamped += 1
                    stamp_ns = perf_counter_ns()
                topic, _number, payload = parse_publish(one)
                yield Publish(leaves, topic, payload, one[0] >> 1 & 3, stamp_ns)
