"""Put the bytes of a TCP stream in order and cut them into MQTT packets."""

import re
from collections.abc import Iterator

# MQTT 5, table 2.1; AUTH is not in MQTT 3.1.1.
TYPES = {
    1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP", 8: "SUBSCRIBE",
    9: "SUBACK", 10: "UNSUBSCRIBE", 11: "UNSUBACK", 12: "PINGREQ", 13: "PINGRESP", 14: "DISCONNECT", 15: "AUTH",
}  # fmt: skip
# Type and length of a packet: MQTT 3.1.1, 2.2.3.
_MOST_LENGTH_BYTES = 4
_HEAD = re.compile(rb".([\x80-\xff]{0,3}[\x00-\x7f])", re.DOTALL)
_SEQUENCES = 1 << 32
# If more segments than this wait behind a gap, the capture has missed what belongs there.
MOST_WAITING = 256


class Stream:
    """One direction of a TCP connection.

    Segments may come in any order and more than once. If a gap stays open, a packet begins at the next start.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._waiting: dict[int, bytes] = {}
        self._open = bytearray()
        # Where the next byte belongs, without wraps; None before the first one.
        self.following: int | None = None
        # Segments with data that brought no byte that was not known.
        self.sent_again = 0

    def put(self, sequence: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return where each packet that is whole now ends, and the packet. Raises ValueError for bytes not MQTT."""
        whole: list[tuple[int, bytes]] = []
        if self.following is None:
            self.following = sequence
        start = self.following + (sequence - self.following + _SEQUENCES // 2) % _SEQUENCES - _SEQUENCES // 2
        if start + len(data) <= self.following:
            self.sent_again += bool(data)
            return whole
        if len(data) > len(self._waiting.get(start, b"")):
            self._waiting[start] = data
        while self._waiting:
            start = min(self._waiting)
            if start > self.following:
                if len(self._waiting) <= self._most_waiting:
                    break
                self._open.clear()
                self.following = start
            fresh = self._waiting.pop(start)[self.following - start :]
            self._open += fresh
            self.following += len(fresh)
            whole += self._packets()
        return whole

    def begin(self, sequence: int) -> None:
        """Begin at the first byte of a connection, which its SYN announces."""
        self.following = sequence

    def _packets(self) -> Iterator[tuple[int, bytes]]:
        """Take the whole packets out of the bytes that are in order."""
        octets, start, first = self._open, 0, (self.following or 0) - len(self._open)
        while head := _HEAD.match(octets, start):
            if octets[start] >> 4 not in TYPES:
                raise ValueError(f"no MQTT packet has type {octets[start] >> 4}")
            end = head.end() + sum((octet & 0x7F) << 7 * place for place, octet in enumerate(head[1]))
            if end > len(octets):
                break
            yield first + end, bytes(octets[start:end])
            start = end
        else:
            if len(octets) - start > _MOST_LENGTH_BYTES:
                raise ValueError("the length of an MQTT packet has at most 4 bytes")
        del octets[:start]
