"""The clients' connections to a broker in captured segments, and the messages on them."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from looplab.capture.streams import TYPES, Stream
from looplab.mqtt.packets import MQTT_5, Publication, read_connect, read_publish

if TYPE_CHECKING:
    from looplab.capture.segments import Segment

FIN, SYN, RST = 0x01, 0x02, 0x04
ABSENT = -1
# The kernel sends what Nagle's algorithm held as soon as the acknowledgement is there.
RELEASE_NS = 300_000
# A larger segment is full, and Nagle's algorithm holds no full one.
SMALL_BYTES = 1400
# First bytes of a TLS handshake, and of HTTP, over which MQTT comes in WebSockets.
_OTHERS = {b"\x16\x03": "TLS", b"GE": "WebSocket"}
_SEQUENCES = 1 << 32


class ConnectionSide:
    """One end of a connection, as far as Nagle's algorithm shows: it holds a small segment until all before it is
    acknowledged."""

    def __init__(self) -> None:
        self._end = self._acknowledged = 0
        self._sent_ns = self._released_ns = ABSENT
        # Since when its next segment may have waited; ABSENT if it may answer what came with the acknowledgement.
        self.waited_since_ns = ABSENT

    def acknowledge(self, segment: Segment, time_ns: int) -> None:
        """Note how far the other end has its bytes."""
        acknowledged = segment.acknowledged
        if acknowledged != self._acknowledged and acknowledged == self._end:
            self._released_ns = time_ns
            self.waited_since_ns = ABSENT if segment.data else self._sent_ns
        self._acknowledged = acknowledged

    def send(self, segment: Segment, time_ns: int) -> int:
        """Return when an acknowledgement let this small segment leave, ABSENT if none did."""
        released_ns, self._released_ns, self._sent_ns = self._released_ns, ABSENT, time_ns
        self._end = (segment.sequence + len(segment.data)) % _SEQUENCES
        held = released_ns != ABSENT and time_ns - released_ns < RELEASE_NS and len(segment.data) < SMALL_BYTES
        return released_ns if held else ABSENT


class Connection:
    """One client's connection. Its name is that of its CONNECT, else its address; version 0 is not known yet."""

    def __init__(self, host: str, port: int) -> None:
        self.name, self.host, self.version = f"{host}:{port}", host, 0
        # By whether they go to the broker.
        self.streams = {True: Stream(), False: Stream()}
        self.senders = {True: ConnectionSide(), False: ConnectionSide()}
        self._aliases: dict[bool, dict[int, bytes]] = {True: {}, False: {}}
        # By packet identifier: messages of QoS 2 from the broker that their client may not hand over yet.
        self._unreleased: dict[bytes, Message] = {}
        # Why its bytes are not read, "" while they are.
        self.foreign = ""

    def pass_on(self, segment: Segment, inbound: bool, time_ns: int) -> tuple[int, int]:
        """Return when an acknowledgement let a segment leave, and since when it may have waited; ABSENT if unknown."""
        self.senders[not inbound].acknowledge(segment, time_ns)
        sender = self.senders[inbound]
        released_ns = sender.send(segment, time_ns) if segment.data else ABSENT
        return released_ns, ABSENT if released_ns == ABSENT else sender.waited_since_ns

    def _publication(self, packet: bytes, inbound: bool) -> Publication:
        """Return a PUBLISH with its topic. Raises ValueError or IndexError for one that does not fit."""
        if not self.version:
            # Its CONNECT was before the capture. Text of MQTT 3.1.1 is hardly ever a list of properties.
            try:
                found = read_publish(packet, MQTT_5)
            except (ValueError, IndexError):
                self.version = MQTT_5 - 1
                found = read_publish(packet, self.version)
        else:
            found = read_publish(packet, self.version)
        aliases = self._aliases[inbound]
        if found.alias and found.topic:
            aliases[found.alias] = found.topic
        return found if found.topic else found._replace(topic=aliases.get(found.alias, b"?"))

    def messages(self, kind: str, packet: bytes, inbound: bool, passed: tuple[int, int, int, int]) -> Iterator[Message]:
        """Yield the message that this packet hands over, if it does; `passed` are the last fields of a message."""
        if kind == "CONNECT":
            self.version, name = read_connect(packet)
            self.name = name or self.name
        elif kind == "PUBLISH":
            found = self._publication(packet, inbound)
            topic, qos, again = found.topic.decode(errors="replace"), packet[0] >> 1 & 3, bool(packet[0] & 8)
            message = Message(self, inbound, topic, qos, again, found, len(packet), *passed)
            if inbound or qos < 2:
                yield message
            else:
                self._unreleased[found.number] = message
        elif kind == "PUBREL" and not inbound and (held := self._unreleased.pop(packet[2:4], None)):
            yield held._replace(time_ns=passed[0], segment=passed[1])


class Message(NamedTuple):
    """A PUBLISH at the broker's interface: to the broker (`inbound`) or from it, when its last byte passed.

    At QoS 2 a client hands a message over when the broker's PUBREL comes (MQTT 3.1.1, 4.3.3, method A, which paho,
    mqtt.js and Paho for Java follow). So the time of such a message from the broker is that of its PUBREL.
    Messages that left together have one `segment`; the last two are as Connection.pass_on returns them.
    """

    connection: Connection
    inbound: bool
    topic: str
    qos: int
    again: bool
    publication: Publication
    size: int
    time_ns: int
    segment: int
    released_ns: int
    waited_since_ns: int


class Connections:
    """Follows every connection to a broker's port, segment by segment; what has ended is forgotten."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: dict[tuple[bytes, int], Connection] = {}
        self._segments = 0
        self.packets: Counter[str] = Counter()
        # Connections that are not MQTT by what they are instead, segments that were sent again, windows of zero.
        self.foreign: Counter[str] = Counter()
        self.sent_again: Counter[str] = Counter()
        self.zero_windows: Counter[str] = Counter()

    def messages(self, segment: Segment) -> Iterator[Message]:
        """Yield the messages whose last byte this segment brings."""
        inbound = segment.destination == self._port
        own = (segment.hosts[0], segment.source) if inbound else (segment.hosts[1], segment.destination)
        if segment.flags & SYN and inbound:
            self._open[own] = _connection(own)
        connection = self._open.get(own)
        if connection is None:
            if not segment.data:
                return
            connection = self._open[own] = _connection(own)
        if segment.flags & SYN:
            connection.streams[inbound].begin((segment.sequence + 1) % _SEQUENCES)
        yield from self._of_connection(connection, segment, inbound)
        if segment.flags & RST or (segment.flags & FIN and inbound):
            self._open.pop(own, None)

    def _of_connection(self, connection: Connection, segment: Segment, inbound: bool) -> Iterator[Message]:
        time_ns = round(segment.time_s * 1e9)
        waits = connection.pass_on(segment, inbound, time_ns)
        if segment.window == 0 and not segment.flags & (SYN | RST):
            self.zero_windows[connection.name if inbound else "broker"] += 1
        if not segment.data or connection.foreign:
            return
        self._segments += 1
        stream, number = connection.streams[inbound], self._segments
        before = stream.sent_again
        try:
            if inbound and not connection.version and (other := _OTHERS.get(segment.data[:2])):
                raise ValueError(other)
            for _end, packet in stream.put(segment.sequence, segment.data):
                kind = TYPES[packet[0] >> 4]
                self.packets[kind] += 1
                yield from connection.messages(kind, packet, inbound, (time_ns, number, *waits))
        except (ValueError, IndexError) as error:
            connection.foreign = str(error)
            self.foreign[connection.foreign] += 1
        if stream.sent_again > before:
            self.sent_again["broker" if not inbound else connection.name] += 1


def _connection(own: tuple[bytes, int]) -> Connection:
    host, port = own
    return Connection(socket.inet_ntop(socket.AF_INET6 if len(host) == 16 else socket.AF_INET, host), port)
