"""MQTT 3.1.1 and 5 framing, just enough to cut a byte stream into control packets and to read a PUBLISH."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

CONNECT = 1
PUBLISH = 3
DISCONNECT = 14

MQTT_5 = 5
HEAD_BYTES = 64

TOPIC_ALIAS = 0x23
# Lengths of the fixed-size PUBLISH properties of MQTT 5; the others carry their length with them.
FIXED_PROPERTY_BYTES = {0x01: 1, 0x02: 4, TOPIC_ALIAS: 2}
STRING_PROPERTIES = {0x03: 1, 0x08: 1, 0x09: 1, 0x26: 2}
SUBSCRIPTION_IDENTIFIER = 0x0B

REQUEST_PATTERN = re.compile(r"[A-Za-z]+-.*-(\d+)\Z", re.DOTALL)
ANSWER_PATTERN = re.compile(r"[^,]+,(\d+),")


class MalformedPacketError(ValueError):
    """Bytes that are no MQTT packet."""


@dataclass(slots=True, eq=False)
class Packet:
    """One control packet and what became of it; `topic` to `uses_alias` mean something for a PUBLISH only."""

    raw: bytes
    arrived_ns: int
    connection: int = 0
    kind: int = 0
    topic: str = ""
    qos: int = 0
    payload_head: bytes = b""
    uses_alias: bool = False
    due_ns: int | None = None
    forwarded_ns: int | None = None

    @property
    def is_publish(self) -> bool:
        return self.kind == PUBLISH

    @property
    def head(self) -> str:
        """The beginning of the payload; decoded when the ledger is written, not while packets wait."""
        return self.payload_head.decode("utf-8", "backslashreplace")

    @property
    def sequence(self) -> int | None:
        return sequence_of(self.head)

    def copy(self) -> Packet:
        """A second packet that has not left yet."""
        return replace(self, due_ns=None, forwarded_ns=None)


class PacketCutter:
    """Cuts a stream, however it is split into segments, into whole control packets."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._wanted_bytes = 0
        self.malformed = False

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Packets that are whole now. After a malformed length nothing more comes: no frame is left."""
        if self.malformed:
            return []
        self._pending += data
        packets = []
        while (length := self._length_of_first()) and length <= len(self._pending):
            packets.append(bytes(self._pending[:length]))
            del self._pending[:length]
            self._wanted_bytes = 0
        return packets

    def rest(self) -> bytes:
        """The beginning of a packet that is not whole yet."""
        return bytes(self._pending)

    def _length_of_first(self) -> int:
        """Bytes of the first pending packet with its header; 0 while the header is incomplete."""
        if self._wanted_bytes:
            return self._wanted_bytes
        remaining = 0
        for position in range(1, 5):
            if position >= len(self._pending):
                return 0
            byte = self._pending[position]
            remaining |= (byte & 0x7F) << (7 * (position - 1))
            if byte < 0x80:
                self._wanted_bytes = 1 + position + remaining
                return self._wanted_bytes
        self.malformed = True
        return 0


class Dialect:
    """The protocol level of one connection, known from its CONNECT and shared by both directions."""

    def __init__(self) -> None:
        self.level = 4


class PacketReader:
    """Reads what the rules need from the packets of one direction of one connection."""

    def __init__(self, dialect: Dialect, connection: int) -> None:
        self._dialect = dialect
        self._connection = connection
        self._topic_of_alias: dict[int, str] = {}

    def read(self, raw: bytes, arrived_ns: int) -> Packet:
        """The packet; MalformedPacketError if a CONNECT or PUBLISH has no readable variable header."""
        packet = Packet(raw, arrived_ns, self._connection, raw[0] >> 4)
        if packet.kind == CONNECT:
            self._dialect.level = _connect_level(raw)
        elif packet.kind == PUBLISH:
            try:
                self._read_publish(packet)
            except MalformedPacketError:
                # Without a topic no rule can match it; the receiver is the one to judge it.
                packet.kind = 0
                raise
        return packet

    def _read_publish(self, packet: Packet) -> None:
        fields = _Fields(packet.raw)
        qos = packet.raw[0] >> 1 & 0x03
        if qos == 3:
            raise MalformedPacketError("a PUBLISH with QoS 3")
        topic = fields.text()
        if qos:
            fields.skip(2)
        if self._dialect.level >= MQTT_5:
            topic = self._resolve_alias(packet, topic, fields.publish_alias())
        packet.topic, packet.qos = topic, qos
        packet.payload_head = fields.rest(HEAD_BYTES)

    def _resolve_alias(self, packet: Packet, topic: str, alias: int | None) -> str:
        if alias is None:
            return topic
        packet.uses_alias = True
        if topic:
            self._topic_of_alias[alias] = topic
        return self._topic_of_alias.get(alias, "")


class _Fields:
    """Reads the fields of one packet one after the other."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 1
        self.number()

    def skip(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._raw):
            raise MalformedPacketError(f"a field ends {end - len(self._raw)} bytes after its packet")
        taken = self._raw[self._at : end]
        self._at = end
        return taken

    def number(self) -> int:
        """A variable byte integer of one to four bytes."""
        value = 0
        for position in range(4):
            byte = self.skip(1)[0]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                return value
        raise MalformedPacketError("a variable byte integer of more than four bytes")

    def sized(self) -> bytes:
        return self.skip(int.from_bytes(self.skip(2), "big"))

    def text(self) -> str:
        try:
            return self.sized().decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedPacketError("a topic that is no UTF-8") from error

    def rest(self, limit: int) -> bytes:
        return self._raw[self._at : self._at + limit]

    def publish_alias(self) -> int | None:
        """The topic alias among a PUBLISH's properties, if any; leaves the position at the payload."""
        alias = None
        length = self.number()
        end = self._at + length
        while self._at < end:
            identifier = self.number()
            if identifier in FIXED_PROPERTY_BYTES:
                value = self.skip(FIXED_PROPERTY_BYTES[identifier])
                alias = int.from_bytes(value, "big") if identifier == TOPIC_ALIAS else alias
            elif identifier in STRING_PROPERTIES:
                for _ in range(STRING_PROPERTIES[identifier]):
                    self.sized()
            elif identifier == SUBSCRIPTION_IDENTIFIER:
                self.number()
            else:
                raise MalformedPacketError(f"an unknown PUBLISH property 0x{identifier:02x}")
        return alias


def _connect_level(raw: bytes) -> int:
    fields = _Fields(raw)
    fields.sized()
    return fields.skip(1)[0]


def sequence_of(head: str) -> int | None:
    """The sequence number of the lab's requests (`E-run-7`) and answers (`run,7,status,R,value`)."""
    found = ANSWER_PATTERN.match(head)
    # A request that fills the head may have been cut inside its number.
    if not found and len(head) < HEAD_BYTES:
        found = REQUEST_PATTERN.match(head)
    return int(found.group(1)) if found else None


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Whether an MQTT topic filter, with its wildcards `+` and `#`, takes in a topic."""
    if topic_filter[0] in "+#" and topic.startswith("$"):
        return False
    wanted, found = topic_filter.split("/"), topic.split("/")
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position >= len(found) or level not in ("+", found[position]):
            return False
    return len(wanted) == len(found)
