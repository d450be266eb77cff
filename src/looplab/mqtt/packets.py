"""MQTT 3.1.1 packets as bytes: cut out of a stream, and PUBLISH read and written.

Only what the hot path needs: paho takes 70 us for each message and direction on its way through locks, logging and
message objects, a fifth of O on loopback. Everything else (sessions, QoS 1 and 2, keepalive) is paho's.
"""

_LENGTH_BYTES = 4


class PacketBuffer:
    """Cuts a stream of bytes into packets."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def rest(self) -> int:
        """Bytes of a packet that is not whole yet."""
        return len(self._rest)

    def packets(self, chunk: bytes) -> list[bytes]:
        """Return the packets that are whole now that `chunk` has arrived."""
        rest = self._rest
        if not rest and len(chunk) > 1 and chunk[1] == len(chunk) - 2 < 0x80:
            return [chunk]
        rest += chunk
        complete, at = [], 0
        while (end := _packet_end(rest, at)) <= len(rest):
            complete.append(bytes(rest[at:end]))
            at = end
        del rest[:at]
        return complete


def _packet_end(data: bytearray, start: int) -> int:
    """Return where the packet at `start` ends; beyond `data` if it is not whole.

    A length that never ends makes all of `data` one packet, which paho rejects.
    """
    length = 0
    for number in range(_LENGTH_BYTES):
        at = start + 1 + number
        if at >= len(data):
            return len(data) + 1
        length |= (data[at] & 0x7F) << 7 * number
        if data[at] < 0x80:
            return at + 1 + length
    return len(data)


def parse_publish(packet: bytes) -> tuple[bytes, bytes, bytes]:
    """Return topic, message id (b"" at QoS 0) and payload of a PUBLISH.

    Raises ValueError or IndexError for a PUBLISH without a topic or shorter than its topic.
    """
    at = 2
    while packet[at - 1] >= 0x80:
        at += 1
    topic_at = at + 2
    id_at = topic_at + (packet[at] << 8 | packet[at + 1])
    payload_at = id_at + (2 if packet[0] & 6 else 0)
    if id_at == topic_at or payload_at > len(packet):
        raise ValueError("a PUBLISH that is shorter than its topic, or has none")
    return packet[topic_at:id_at], packet[id_at:payload_at], packet[payload_at:]


def publish_packet(topic: bytes, payload: bytes, retain: bool) -> bytes:
    """Return a PUBLISH at QoS 0."""
    length = 2 + len(topic) + len(payload)
    if length < 0x80:
        # One expression, for speed: it runs between a message's time stamp and the socket.
        return b"%c%c\0%c%b%b" % (0x31 if retain else 0x30, length, len(topic), topic, payload)
    packet = bytearray((0x31 if retain else 0x30,))
    while length >= 0x80:
        packet.append(length & 0x7F | 0x80)
        length >>= 7
    packet.append(length)
    return bytes(packet + len(topic).to_bytes(2, "big") + topic + payload)


def puback_packet(message_id: bytes) -> bytes:
    """Return the acknowledgement of a PUBLISH at QoS 1."""
    return b"\x40\x02" + message_id


def pubrec_packet(message_id: bytes) -> bytes:
    """Return the first acknowledgement of a PUBLISH at QoS 2."""
    return b"\x50\x02" + message_id
