"""MQTT packets as bytes: cut out of a stream, PUBLISH and MQTT 5's properties read and written, CONNECT read.

Only what the hot path and a capture need: paho takes 70 us for each message and direction on its way through locks,
logging and message objects, a fifth of O on loopback. Everything else (sessions, QoS 1 and 2, keepalive) is paho's.
"""

from typing import NamedTuple

_LENGTH_BYTES = 4
MQTT_5 = 5
# The versions as a CONNACK shows them: with MQTT 5 properties follow its two bytes.
VERSIONS = V3_1_1, V5 = "3.1.1", "5"
# The properties that the lab reads or writes: MQTT 5, 2.2.2.2.
RESPONSE_TOPIC, CORRELATION_DATA, TOPIC_ALIAS = 8, 9, 35
# The (first) acknowledgement of a PUBLISH at QoS 1 and 2; its message id follows.
PUBACK, PUBREC = b"\x40\x02", b"\x50\x02"
# How many bytes a property's value has; 0: a length of two bytes is before it, -1: two of these, None: it ends itself.
_PROPERTY_BYTES: dict[int, int | None] = {
    **dict.fromkeys((1, 23, 25, 36, 37, 40, 41, 42), 1),
    **dict.fromkeys((19, 33, 34, 35), 2),
    **dict.fromkeys((2, 17, 24, 39), 4),
    **dict.fromkeys((3, 8, 9, 18, 21, 22, 26, 28, 31), 0),
    38: -1,
    11: None,
}


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


def parse_publish_5(packet: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Return topic, message id, properties (from their length on) and payload of a PUBLISH of MQTT 5.

    Raises ValueError or IndexError as `parse_publish`, also where an alias stands for the topic.
    """
    topic, number, rest = parse_publish(packet)
    length, at = _variable(rest, 0)
    end = at + length
    if end > len(rest):
        raise ValueError("properties that are longer than their packet")
    return topic, number, rest[:end], rest[end:]


class Publication(NamedTuple):
    """A PUBLISH as a capture reads it; at MQTT 5 its topic may be an `alias` that the connection knows, else 0.

    `number` is its packet identifier, b"" at QoS 0.
    """

    topic: bytes
    number: bytes
    payload: bytes
    correlation: bytes
    alias: int


def read_publish(packet: bytes, version: int) -> Publication:
    """Return a PUBLISH of any version. Raises ValueError or IndexError if its bytes do not fit."""
    if version < MQTT_5:
        topic, number, payload = parse_publish(packet)
        return Publication(topic, number, payload, b"", 0)
    _length, at = _variable(packet, 1)
    topic, at = _prefixed(packet, at)
    number = packet[at : at + 2] if packet[0] & 6 else b""
    properties, at = read_properties(packet, at + len(number))
    alias = int.from_bytes(properties.get(TOPIC_ALIAS, b""), "big")
    if not topic and not alias:
        raise ValueError("a PUBLISH without a topic")
    return Publication(topic, number, packet[at:], properties.get(CORRELATION_DATA, b""), alias)


def read_connect(packet: bytes) -> tuple[int, str]:
    """Return protocol level (4: 3.1.1, 5: MQTT 5) and client id of a CONNECT. Raises ValueError or IndexError."""
    _length, at = _variable(packet, 1)
    name, at = _prefixed(packet, at)
    if name not in (b"MQTT", b"MQIsdp"):
        raise ValueError("a CONNECT of another protocol")
    level, at = packet[at], at + 4
    if level >= MQTT_5:
        _properties, at = read_properties(packet, at)
    client_id, _at = _prefixed(packet, at)
    return level, client_id.decode(errors="replace")


def read_properties(packet: bytes, at: int) -> tuple[dict[int, bytes], int]:
    """Return the properties at a place of an MQTT 5 packet, and where they end. Raises ValueError or IndexError."""
    length, at = _variable(packet, at)
    end, found = at + length, {}
    if end > len(packet):
        raise ValueError("properties that are longer than their packet")
    while at < end:
        name, at = packet[at], at + 1
        start = at
        if name not in _PROPERTY_BYTES:
            raise ValueError(f"MQTT 5 has no property {name}")
        size = _PROPERTY_BYTES[name]
        if size is None:
            at = _variable(packet, at)[1]
        elif size > 0:
            at += size
        else:
            at = _prefixed(packet, at)[1]
            start += 2
            if size < 0:
                at = _prefixed(packet, at)[1]
        found[name] = packet[start:at]
    if at != end:
        raise ValueError("properties that are longer than their length")
    return found, end


def _variable(packet: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to four bytes, and where it ends."""
    value = 0
    for number in range(_LENGTH_BYTES):
        value |= (packet[at + number] & 0x7F) << 7 * number
        if packet[at + number] < 0x80:
            return value, at + number + 1
    raise ValueError("a length of more than 4 bytes")


def _prefixed(packet: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes with their length before them, and where they end."""
    end = at + 2 + (packet[at] << 8 | packet[at + 1])
    if end > len(packet):
        raise ValueError("a text that is longer than its packet")
    return packet[at + 2 : end], end


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


def with_length(properties: bytes) -> bytes:
    """Return properties as a packet of MQTT 5 holds them: their length comes first."""
    length = len(properties)
    return (
        b"%c%b" % (length, properties) if length < 0x80 else b"%c%c%b" % (length & 0x7F | 0x80, length >> 7, properties)
    )


def property_bytes(name: int, value: bytes) -> bytes:
    """Return one property whose value has a length before it."""
    return b"%c%b%b" % (name, len(value).to_bytes(2, "big"), value)
