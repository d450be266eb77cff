"""MQTT 3.1.1 framing: cut a byte stream into control packets and read a PUBLISH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

PUBLISH, DISCONNECT = 3, 14
HEAD_BYTES = 64
# A request is `E-run-7`, an answer `run,7,status,R,value`.
SEQUENCE = re.compile(rb"[^,]+,(\d+),|[A-Za-z]+-.*-(\d+)\Z", re.DOTALL)


class MalformedPacketError(ValueError):
    """Report bytes that are no MQTT packet."""


@dataclass(slots=True, eq=False)
class Packet:
    """One control packet and its times; `topic`, `qos` and `head` are those of a PUBLISH."""

    raw: bytes
    arrived_ns: int
    connection: int = 0
    kind: int = 0
    topic: str = ""
    qos: int = 0
    head: bytes = b""
    due_ns: int | None = None
    forwarded_ns: int | None = None

    @property
    def sequence(self) -> int | None:
        """Return the lab's sequence number; None in any other payload."""
        found = SEQUENCE.match(self.head)
        # A head that is full may end within the number of a request.
        if not found or (found[1] is None and len(self.head) == HEAD_BYTES):
            return None
        return int(found[1] or found[2])

    def copy(self) -> Packet:
        """Return a second packet that has not left yet."""
        return replace(self, due_ns=None, forwarded_ns=None)


def cut(pending: bytearray) -> Iterator[bytes]:
    """Take the whole packets off `pending`, however the stream was split.

    Raise MalformedPacketError at a remaining length of more than four bytes.
    """
    while (length := _first_length(pending)) and length <= len(pending):
        yield bytes(pending[:length])
        del pending[:length]


def read(raw: bytes, arrived_ns: int, connection: int = 0) -> Packet:
    """Return the packet; a PUBLISH without a readable header counts as no PUBLISH, for no rule can match it."""
    packet = Packet(raw, arrived_ns, connection, raw[0] >> 4)
    if packet.kind != PUBLISH:
        return packet
    start = 2
    while raw[start - 1] & 0x80:
        start += 1
    topic_end = start + 2 + int.from_bytes(raw[start : start + 2], "big")
    packet.qos = raw[0] >> 1 & 0x03
    payload_start = topic_end + (2 if packet.qos else 0)
    try:
        packet.topic = raw[start + 2 : topic_end].decode()
    except UnicodeDecodeError:
        packet.kind = 0
    if len(raw) < max(payload_start, start + 2) or packet.qos == 3:
        packet.kind = 0
    packet.head = raw[payload_start : payload_start + HEAD_BYTES]
    return packet


def _first_length(pending: bytearray) -> int:
    """Return the bytes of the first packet with its header; 0 while the header is incomplete."""
    remaining = 0
    for position, byte in enumerate(pending[1:5]):
        remaining |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return 2 + position + remaining
    if len(pending) >= 5:
        raise MalformedPacketError("a remaining length of more than four bytes")
    return 0
