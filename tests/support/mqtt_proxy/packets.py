"""What the proxy reads of a control packet."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from support.mqtt_packets import PUBLISH, body_of

HEAD_BYTES = 64
# A request is `E-run-7`, an answer `run,7,status,R,value`.
SEQUENCE = re.compile(rb"[^,]+,(\d+),|[A-Za-z]+-.*-(\d+)\Z", re.DOTALL)


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


def read(raw: bytes, arrived_ns: int, connection: int = 0) -> Packet:
    """Return the packet; a PUBLISH without a readable header counts as no PUBLISH, for no rule can match it."""
    packet = Packet(raw, arrived_ns, connection, raw[0] & 0xF0)
    if packet.kind != PUBLISH:
        return packet
    body = body_of(raw)
    topic_end = 2 + int.from_bytes(body[:2], "big")
    packet.qos = raw[0] >> 1 & 0x03
    start = topic_end + (2 if packet.qos else 0)
    try:
        packet.topic = body[2:topic_end].decode()
    except UnicodeDecodeError:
        packet.kind = 0
    if len(body) < start or packet.qos == 3:
        packet.kind = 0
    packet.head = body[start : start + HEAD_BYTES]
    return packet
