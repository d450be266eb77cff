"""MQTT packets in TCP segments, counted from what tshark dissected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# One line for each frame that carries bytes of TCP; several MQTT packets in one are joined by commas.
FIELDS = ("frame.time_epoch", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len", "mqtt.msgtype")
# MQTT 3.1.1, table 2.1.
TYPES = {
    1: "CONNECT", 2: "CONNACK", 3: "PUBLISH", 4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP", 8: "SUBSCRIBE",
    9: "SUBACK", 10: "UNSUBSCRIBE", 11: "UNSUBACK", 12: "PINGREQ", 13: "PINGRESP", 14: "DISCONNECT",
}  # fmt: skip


def tshark_command(capture: Path, broker_port: int) -> list[str]:
    """What prints FIELDS of each frame."""
    return [
        *("tshark", "-n", "-r", str(capture), "-d", f"tcp.port=={broker_port},mqtt"),
        # Each segment by itself: following the order, tshark leaves one that was overtaken undissected.
        *("-o", "tcp.analyze_sequence_numbers:FALSE", "-Y", "tcp.len > 0"),
        *("-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=,"),
        *(word for name in FIELDS for word in ("-e", name)),
    ]


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
        """One segment that carries the ends of `packets` MQTT packets."""
        self.segments += 1
        self.mqtt_packets += packets
        self.most_packets = max(self.most_packets, packets)
        self.bytes += size
        self.most_bytes = max(self.most_bytes, size)
        self.histogram[packets] += 1

    def as_json(self) -> dict[str, Any]:
        """As `segments` of a cell in run.json; means are null where there was no segment."""
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


def count(
    lines: Iterable[str], publisher_ports: Sequence[int], subscriber_ports: Sequence[int], since_s: float = 0.0
) -> dict[str, Any]:
    """Figures of the frames from `since_s` (seconds since 1970) on that belong to these connections.

    {"segments": {"publisher": …, "subscriber": …}, "packets": {"PUBLISH": n, …}, "published": n}: what the publisher
    sent, what was sent to the subscriber, all MQTT packets of both connections in both directions, and the PUBLISH
    packets of the publisher. A segment that was sent again is counted apart. Raises ValueError for a line that is
    none of FIELDS.
    """
    published, delivered = Direction(), Direction()
    packets: Counter[str] = Counter()
    publications = 0
    known = {*publisher_ports, *subscriber_ports}
    seen: set[tuple[int, int, int]] = set()
    for line in lines:
        time_s, source, destination, sequence, size, types = line.rstrip("\n").split(";")
        segment = (int(source), int(destination), int(sequence))
        if float(time_s) < since_s or not known & set(segment[:2]):
            continue
        way = _way(segment, published, delivered, publisher_ports, subscriber_ports)
        if segment in seen:
            way.sent_again += 1
            continue
        seen.add(segment)
        names = [TYPES[int(number)] for number in types.split(",") if number]
        packets.update(names)
        publications += names.count("PUBLISH") if way is published else 0
        way.add(int(size), len(names))
    return {
        "segments": {"publisher": published.as_json(), "subscriber": delivered.as_json()},
        "packets": {name: packets[name] for name in TYPES.values() if packets[name]},
        "published": publications,
    }


def _way(
    segment: tuple[int, int, int],
    published: Direction,
    delivered: Direction,
    publisher_ports: Sequence[int],
    subscriber_ports: Sequence[int],
) -> Direction:
    """Where a segment counts; the ways back count nowhere."""
    if segment[0] in publisher_ports:
        return published
    return delivered if segment[1] in subscriber_ports else Direction()
