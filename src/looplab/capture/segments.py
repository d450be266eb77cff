"""Count MQTT packets in the TCP segments of a capture."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dpkt

from looplab.capture import CapturedConnections

# Link layers of a capture file: an interface of its own, and `any` in both forms of Linux.
_LINK_LAYERS = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}
# MQTT 3.1.1, table 2.1.
TYPES = {
    1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP", 8: "SUBSCRIBE",
    9: "SUBACK", 10: "UNSUBSCRIBE", 11: "UNSUBACK", 12: "PINGREQ", 13: "PINGRESP", 14: "DISCONNECT",
}  # fmt: skip
# Type and length of a packet: MQTT 3.1.1, 2.2.3.
_MOST_LENGTH_BYTES = 4
_HEAD = re.compile(rb".([\x80-\xff]{0,3}[\x00-\x7f])", re.DOTALL)
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


def count(segments: Iterable[Segment], connections: Sequence[CapturedConnections]) -> dict[str, Any]:
    """Return the figures of the segments that belong to these connections, each in its own time.

    {"segments": {"publisher": …, "subscriber": …}, "packets": {"PUBLISH": n, …}, "published": n, "unconfirmed_max": n}:
    what the publisher sent, what was sent to the subscriber, all MQTT packets of both connections in both directions,
    the PUBLISH packets of the publisher, and how many of them were unconfirmed at most (all, at QoS 0). A segment that
    was sent again is counted apart. Raises ValueError for bytes that are not MQTT.
    """
    publishers = {one.publisher: one for one in connections}
    subscribers = {one.subscriber: one for one in connections}
    known = {**publishers, **subscribers}
    # How many of a publisher's messages are unconfirmed, by its connection.
    unconfirmed: Counter[int] = Counter()
    unconfirmed_max = 0
    own = [segment for segment in segments if known.keys() & {segment.source, segment.destination}]
    _dissect(own)
    ways: dict[str, list[Segment]] = defaultdict(list)
    sent_again: Counter[str] = Counter()
    seen: set[tuple[int, int, int]] = set()
    for segment in own:
        connection = known.get(segment.source) or known[segment.destination]
        unconfirmed[connection.publisher] += _opened(segment, publishers)
        if not connection.since_s <= segment.time_s <= connection.until_s:
            continue
        unconfirmed_max = max(unconfirmed_max, unconfirmed[connection.publisher])
        way = "back"
        if segment.source in publishers:
            way = "publisher"
        elif segment.destination in subscribers:
            way = "subscriber"
        place = (segment.source, segment.destination, segment.sequence)
        if place in seen and not segment.packets:
            sent_again[way] += 1
        else:
            seen.add(place)
            ways[way].append(segment)
    packets = Counter(kind for way in ways.values() for segment in way for kind in segment.packets)
    return {
        "segments": {way: _figures(ways[way], sent_again[way]) for way in ("publisher", "subscriber")},
        "packets": {name: packets[name] for name in TYPES.values() if packets[name]},
        "published": sum(segment.packets.count("PUBLISH") for segment in ways["publisher"]),
        "unconfirmed_max": unconfirmed_max,
    }


def _opened(segment: Segment, publishers: Container[int]) -> int:
    """Return how many more messages of a publisher are unconfirmed after a segment."""
    if segment.source in publishers:
        return segment.packets.count("PUBLISH")
    if segment.destination in publishers:
        return -sum(segment.packets.count(kind) for kind in ("PUBACK", "PUBCOMP"))
    return 0


def _figures(segments: Sequence[Segment], sent_again: int) -> dict[str, Any]:
    """Return `segments` of a cell in run.json; sizes are bytes of TCP payload, means null if there was no segment."""
    carried = [len(segment.packets) for segment in segments]
    sizes = [len(segment.data) for segment in segments]
    return {
        "segments": len(segments),
        "sent_again": sent_again,
        "mqtt_packets": sum(carried),
        "mqtt_packets_per_segment": _mean_and_max(carried),
        "size_bytes": _mean_and_max(sizes),
        "histogram": {str(packets): number for packets, number in sorted(Counter(carried).items())},
    }


def _mean_and_max(values: Sequence[int]) -> dict[str, float | None]:
    return {"mean": round(sum(values) / len(values), 4) if values else None, "max": max(values, default=0)}


def _dissect(segments: Sequence[Segment]) -> None:
    """Fill in `packets`: each packet belongs to the first captured segment that held its last byte.

    A stream is followed in its own order, for a segment may have been overtaken. TCP may send several segments again
    as one, so a later segment may hold what an earlier one held, and more.
    """
    streams: dict[tuple[int, int], list[Segment]] = defaultdict(list)
    for segment in segments:
        streams[segment.source, segment.destination].append(segment)
    for stream in streams.values():
        first = stream[0].sequence
        # Sequence numbers wrap; what the first captured segment overtook has a lower number.
        starts = [(segment.sequence - first + _SEQUENCES // 2) % _SEQUENCES for segment in stream]
        ends = dict(_follow(sorted(zip(starts, (segment.data for segment in stream), strict=True))))
        places = sorted(ends)
        for start, segment in zip(starts, stream, strict=True):
            inside = places[bisect_right(places, start) : bisect_right(places, start + len(segment.data))]
            segment.packets = [ends.pop(end) for end in inside if end in ends]


def _follow(stream: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    """Yield where each packet of a sorted stream ends, and its type. After a gap, a packet begins at the next start."""
    open_bytes, following = b"", -1
    for start, data in stream:
        if start > following:
            open_bytes, following = b"", start
        fresh = data[following - start :]
        octets, following = open_bytes + fresh, following + len(fresh)
        packets, open_bytes = _packets(octets)
        for end, kind in packets:
            yield following - len(octets) + end, kind


def _packets(octets: bytes) -> tuple[list[tuple[int, str]], bytes]:
    """Return where each whole MQTT packet of `octets` ends, with its type, and the bytes that remain."""
    packets: list[tuple[int, str]] = []
    start = 0
    while head := _HEAD.match(octets, start):
        end = head.end() + sum((octet & 0x7F) << 7 * place for place, octet in enumerate(head[1]))
        if end > len(octets):
            return packets, octets[start:]
        kind = octets[start] >> 4
        if kind not in TYPES:
            raise ValueError(f"no MQTT packet has type {kind}")
        packets.append((end, TYPES[kind]))
        start = end
    if len(octets) - start > _MOST_LENGTH_BYTES:
        raise ValueError("the length of an MQTT packet has at most 4 bytes")
    return packets, octets[start:]
