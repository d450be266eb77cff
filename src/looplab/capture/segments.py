"""Count MQTT packets in the TCP segments of a capture."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import dpkt

from looplab.capture import CapturedConnections
from looplab.capture.streams import TYPES, Stream

# Link layers of a capture file: an interface of its own, and `any` in both forms of Linux.
_LINK_LAYERS = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}
_SEQUENCES = 1 << 32


@dataclass(slots=True)
class Segment:
    """A TCP segment; `packets` are the types of the MQTT packets that end in it, `hosts` both ends' addresses."""

    time_s: float
    source: int
    destination: int
    sequence: int
    data: bytes
    packets: list[str] = field(default_factory=list)
    hosts: tuple[bytes, bytes] = (b"", b"")
    acknowledged: int = 0
    window: int = 1
    flags: int = 0


def read(capture: Path) -> Iterator[Segment]:
    """Yield the TCP segments of a pcap file, in the order of capture. Raises ValueError for another file."""
    try:
        with capture.open("rb") as file:
            reader = dpkt.pcap.Reader(file)
            frame = _LINK_LAYERS[reader.datalink()]
            for time_s, octets in reader:
                packet = frame(octets).data
                tcp = getattr(packet, "data", None)
                if isinstance(tcp, dpkt.tcp.TCP):
                    segment = Segment(float(time_s), tcp.sport, tcp.dport, tcp.seq, bytes(tcp.data))
                    segment.hosts = (packet.src, packet.dst)
                    segment.acknowledged, segment.window, segment.flags = tcp.ack, tcp.win, tcp.flags
                    yield segment
    except (dpkt.Error, KeyError, ValueError) as error:
        raise ValueError(f"{capture} is not a pcap file of Ethernet or Linux frames: {error!r}") from None


def count(segments: Iterable[Segment], connections: Sequence[CapturedConnections]) -> dict[str, Any]:
    """Return the figures of the segments that belong to these connections, each in its own time.

    {"segments": {"publisher": …}, "packets": {"PUBLISH": n, …}, "published": n}: what the publisher sent, all MQTT
    packets of both connections in both directions, and the PUBLISH packets of the publisher. A segment that was sent
    again is counted apart. Raises ValueError for bytes that are not MQTT.
    """
    known = {port: one for one in connections for port in (one.publisher, one.subscriber)}
    publishers = {one.publisher for one in connections}
    own = [one for one in segments if one.data and known.keys() & {one.source, one.destination}]
    _dissect(own)
    packets: Counter[str] = Counter()
    sent: list[Segment] = []
    seen: set[tuple[int, int]] = set()
    again = 0
    for segment in own:
        connection = known.get(segment.source) or known[segment.destination]
        if not connection.since_s <= segment.time_s <= connection.until_s:
            continue
        packets.update(segment.packets)
        if segment.source in publishers:
            place = (segment.source, segment.sequence)
            # A segment that is sent again may bring packets that were never sent before.
            if place in seen and not segment.packets:
                again += 1
            else:
                seen.add(place)
                sent.append(segment)
    return {
        "segments": {"publisher": _figures(sent, again)},
        "packets": {name: packets[name] for name in TYPES.values() if packets[name]},
        "published": sum(segment.packets.count("PUBLISH") for segment in sent),
    }


def _figures(segments: Sequence[Segment], sent_again: int) -> dict[str, Any]:
    """Return `segments` of a cell in run.json: how many hold so many packets; sizes are bytes of TCP payload."""
    carried = [len(segment.packets) for segment in segments]
    return {
        "sent_again": sent_again,
        "mqtt_packets_per_segment": {"mean": round(fmean(carried), 4) if carried else None},
        "size_bytes": {"max": max((len(segment.data) for segment in segments), default=0)},
        "histogram": {str(packets): number for packets, number in sorted(Counter(carried).items())},
    }


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
        ends: dict[int, str] = {}
        cutter = Stream(most_waiting=0)
        for start, data in sorted(zip(starts, (segment.data for segment in stream), strict=True)):
            ends.update((end, TYPES[packet[0] >> 4]) for end, packet in cutter.put(start, data))
        places = sorted(ends)
        for start, segment in zip(starts, stream, strict=True):
            inside = places[bisect_right(places, start) : bisect_right(places, start + len(segment.data))]
            segment.packets = [ends.pop(end) for end in inside if end in ends]
