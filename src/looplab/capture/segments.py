"""Count MQTT packets in the TCP segments of a capture."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dpkt

# Link layers of a capture file: an interface of its own, and `any` in both forms of Linux.
_LINK_LAYERS = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}
# MQTT 3.1.1, table 2.1.
TYPES = {
    1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP", 8: "SUBSCRIBE",
    9: "SUBACK", 10: "UNSUBSCRIBE", 11: "UNSUBACK", 12: "PINGREQ", 13: "PINGRESP", 14: "DISCONNECT",
}  # fmt: skip
# MQTT 3.1.1, 2.2.3.
_MOST_LENGTH_BYTES = 4
_SEQUENCES = 1 << 32


@dataclass
class Segment:
    """A TCP segment that carries bytes; `packets` are the types of the MQTT packets that end in it."""

    time_s: float
    source: int
    destination: int
    sequence: int
    data: bytes
    packets: list[str] = field(default_factory=list)


@dataclass
class Direction:
    """Segments of one direction of one connection; sizes are bytes of TCP payload."""

    segments: int = 0
    sent_again: int = 0
    mqtt_packets: int = 0
    most_packets: int = 0
    bytes: int = 0
    most_bytes: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def add(self, size: int, packets: int) -> None:
        """Add one segment that carries the ends of `packets` MQTT packets."""
        self.segments += 1
        self.mqtt_packets += packets
        self.most_packets = max(self.most_packets, packets)
        self.bytes += size
        self.most_bytes = max(self.most_bytes, size)
        self.histogram[packets] += 1

    def as_json(self) -> dict[str, Any]:
        """Return `segments` of a cell in run.json; means are null if there was no segment."""
        return {
            "segments": self.segments,
            "sent_again": self.sent_again,
            "mqtt_packets": self.mqtt_packets,
            "mqtt_packets_per_segment": {"mean": self._mean(self.mqtt_packets), "max": self.most_packets},
            "size_bytes": {"mean": self._mean(self.bytes), "max": self.most_bytes},
            "histogram": {str(packets): self.histogram[packets] for packets in sorted(self.histogram)},
        }

    def _mean(self, total: int) -> float | None:
        return round(total / self.segments, 4) if self.segments else None


def read(capture: Path) -> Iterator[Segment]:
    """Yield the TCP segments with data of a pcap file, in the order of capture. Raises ValueError for another file."""
    try:
        with capture.open("rb") as file:
            reader = dpkt.pcap.Reader(file)
            frame = _LINK_LAYERS[reader.datalink()]
            for time_s, octets in reader:
                tcp = getattr(frame(octets).data, "data", None)
                if isinstance(tcp, dpkt.tcp.TCP) and tcp.data:
                    yield Segment(float(time_s), tcp.sport, tcp.dport, tcp.seq, bytes(tcp.data))
    except (dpkt.Error, KeyError, ValueError) as error:
        raise ValueError(f"{capture} is not a pcap file of Ethernet or Linux frames: {error!r}") from None


def count(
    segments: Iterable[Segment], publisher_ports: Sequence[int], subscriber_ports: Sequence[int], since_s: float = 0.0
) -> dict[str, Any]:
    """Return the figures of the segments from `since_s` (seconds since 1970) on that belong to these connections.

    {"segments": {"publisher": …, "subscriber": …}, "packets": {"PUBLISH": n, …}, "published": n}: what the publisher
    sent, what was sent to the subscriber, all MQTT packets of both connections in both directions, and the PUBLISH
    packets of the publisher. A segment that was sent again is counted apart. Raises ValueError for bytes that are
    not MQTT.
    """
    published, delivered = Direction(), Direction()
    packets: Counter[str] = Counter()
    publications = 0
    known = {*publisher_ports, *subscriber_ports}
    own = [segment for segment in segments if known & {segment.source, segment.destination}]
    _dissect(own)
    seen: set[tuple[int, int, int]] = set()
    for segment in own:
        if segment.time_s < since_s:
            continue
        way = _way(segment, published, delivered, publisher_ports, subscriber_ports)
        place = (segment.source, segment.destination, segment.sequence)
        if place in seen:
            way.sent_again += 1
            continue
        seen.add(place)
        packets.update(segment.packets)
        publications += segment.packets.count("PUBLISH") if way is published else 0
        way.add(len(segment.data), len(segment.packets))
    return {
        "segments": {"publisher": published.as_json(), "subscriber": delivered.as_json()},
        "packets": {name: packets[name] for name in TYPES.values() if packets[name]},
        "published": publications,
    }


def _way(
    segment: Segment,
    published: Direction,
    delivered: Direction,
    publisher_ports: Sequence[int],
    subscriber_ports: Sequence[int],
) -> Direction:
    """Where a segment counts; the ways back count nowhere."""
    if segment.source in publisher_ports:
        return published
    return delivered if segment.destination in subscriber_ports else Direction()


def _dissect(segments: Sequence[Segment]) -> None:
    """Fill in `packets`, following each stream in its own order: a segment may have been overtaken on the way."""
    streams: dict[tuple[int, int], list[Segment]] = defaultdict(list)
    for segment in segments:
        streams[segment.source, segment.destination].append(segment)
    for stream in streams.values():
        first = stream[0].sequence
        # Sequence numbers wrap; what was overtaken by the first captured segment lies before it.
        stream.sort(key=lambda segment: (segment.sequence - first + _SEQUENCES // 2) % _SEQUENCES)
        _follow(stream)


def _follow(stream: Iterable[Segment]) -> None:
    """Fill in `packets` of one stream, sorted. After a gap, a packet begins where the next segment does."""
    open_bytes, following = b"", None
    for segment in stream:
        known = (following - segment.sequence) % _SEQUENCES if following is not None else _SEQUENCES
        if known > _SEQUENCES // 2:
            open_bytes, known = b"", 0
        fresh = segment.data[known:]
        if known and not fresh:
            # Sent again: it holds what an earlier one held.
            continue
        following = (segment.sequence + len(segment.data)) % _SEQUENCES
        segment.packets, open_bytes = _packets(open_bytes + fresh)


def _packets(octets: bytes) -> tuple[list[str], bytes]:
    """Return the types of the whole MQTT packets at the start of `octets`, and the bytes that remain."""
    found: list[str] = []
    start = 0
    while (size := _size(octets[start : start + 1 + _MOST_LENGTH_BYTES])) and start + size <= len(octets):
        kind = octets[start] >> 4
        if kind not in TYPES:
            raise ValueError(f"no MQTT packet has type {kind}")
        found.append(TYPES[kind])
        start += size
    return found, octets[start:]


def _size(head: bytes) -> int:
    """Return the size in bytes of the packet that begins so; 0 if its head is not whole."""
    length = 0
    for place, octet in enumerate(head[1:]):
        length |= (octet & 0x7F) << (7 * place)
        if octet < 0x80:
            return 2 + place + length
    if len(head) > _MOST_LENGTH_BYTES:
        raise ValueError("the length of an MQTT packet has at most 4 bytes")
    return 0
