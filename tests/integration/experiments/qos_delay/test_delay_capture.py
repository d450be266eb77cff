"""MQTT packets in TCP segments, counted in captures whose content is known."""

import itertools
import random
from dataclasses import dataclass
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap
from support import mqtt_packets
from support.mqtt_packets import PUBACK, PUBCOMP, PUBREC, PUBREL

from looplab.capture import CapturedConnections
from looplab.capture.segments import count, read

CONTROLLER, BROKER = "10.0.0.2", "10.0.0.3"
PUBLISHER, SUBSCRIBER, PORT = 40001, 40002, 1883
TOPIC = b"delay"
# The flags of PUBREL are 2 (MQTT 3.1.1, table 2.2).
HEADERS = {"PUBACK": PUBACK, "PUBREC": PUBREC, "PUBREL": PUBREL | 2, "PUBCOMP": PUBCOMP}


def publish(number: int, qos: int) -> bytes:
    """Return a PUBLISH with a payload of 20 bytes."""
    return mqtt_packets.publish(b"%020d" % number, TOPIC, qos, number)


def acknowledge(kind: str, number: int) -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return mqtt_packets.packet(HEADERS[kind], number.to_bytes(2, "big"))


@dataclass
class Segment:
    """One TCP segment: when (s), from and to which port, its first byte's place in the stream, its bytes."""

    time_s: float
    source: int
    destination: int
    sequence: int
    data: bytes

    def frame(self) -> Ether:
        ends = (CONTROLLER, BROKER) if self.destination == PORT else (BROKER, CONTROLLER)
        tcp = TCP(sport=self.source, dport=self.destination, seq=(1000 + self.sequence) % (1 << 32), ack=1, flags="PA")
        frame = Ether() / IP(src=ends[0], dst=ends[1]) / tcp / Raw(self.data)
        frame.time = self.time_s
        return frame


def write(path: Path, segments: list[Segment]) -> Path:
    wrpcap(str(path), [segment.frame() for segment in segments])
    return path


def figures(path: Path, segments: list[Segment], since_s: float = 0.0) -> dict[str, object]:
    return count(read(write(path, segments)), [CapturedConnections(PUBLISHER, SUBSCRIBER, since_s)])


def stream(packets: list[list[bytes]], source: int, destination: int) -> list[Segment]:
    """Segments in order, each of the given packets."""
    segments, sequence = [], 0
    for number, held in enumerate(packets):
        data = b"".join(held)
        segments.append(Segment(100 + number * 0.01, source, destination, sequence, data))
        sequence += len(data)
    return segments


def test_every_packet_counts_once_whatever_its_segments_and_their_order(tmp_path: Path) -> None:
    """Cut anywhere, shuffled, some sent again, across the wrap of sequence numbers: each counts where it ends.

    It has both directions and all types of QoS 2. What came before the cell, and a stranger's packets, do not count.
    """
    rng = random.Random(3)
    packets = [rng.choice((publish(n, 2), acknowledge("PUBREL", n))) for n in range(1, 1000)]
    whole, sent, place = b"".join(packets), list[Segment](), 0
    ends = set(itertools.accumulate(map(len, packets)))
    while place < len(whole):
        size = rng.choice((1, 5, 30, 200, 1448))
        sent.append(Segment(100 + place * 1e-4, PUBLISHER, PORT, place - 3000, whole[place : place + size]))
        place += size
    again = [Segment(s.time_s + 0.05, s.source, s.destination, s.sequence, s.data) for s in sent[10:200:19]]
    answered = stream([[acknowledge("PUBREC", n), acknowledge("PUBCOMP", n)] for n in range(1, 200)], PORT, PUBLISHER)
    arrived = stream([[publish(n, 2)] * (1 + n % 3) for n in range(1, 100)], PORT, SUBSCRIBER)
    others = [Segment(99, PUBLISHER, PORT, -3100, publish(1, 0)), Segment(102, 50000, PORT, 0, publish(3, 0))]
    everything = [*sent, *again, *answered, *arrived, *others]
    rng.shuffle(everything)
    found = figures(tmp_path / "known.pcap", everything, since_s=100.0)

    carried = [len(ends & set(range(s.sequence + 3001, s.sequence + 3001 + len(s.data)))) for s in sent]
    assert found["segments"]["publisher"] == {
        "sent_again": len(again),
        "mqtt_packets_per_segment": {"mean": round(sum(carried) / len(carried), 4)},
        "size_bytes": {"max": 1448},
        "histogram": {str(n): carried.count(n) for n in sorted(set(carried))},
    }
    own = sum(packet[0] >> 4 == 3 for packet in packets)
    assert found["published"] == own
    delivered = sum(1 + n % 3 for n in range(1, 100))
    wanted = {"PUBLISH": own + delivered, "PUBREC": 199, "PUBREL": len(packets) - own, "PUBCOMP": 199}
    assert found["packets"] == wanted


def test_segments_sent_again_as_one_lose_no_packet(tmp_path: Path) -> None:
    """TCP joins small segments that it sends again: each packet counts once, where it was first sent."""
    sent = stream([[publish(n, 0)] for n in range(200)], PUBLISHER, PORT)
    joined = Segment(101, PUBLISHER, PORT, sent[50].sequence, b"".join(one.data for one in sent[50:53]))
    # The last one sent again, with two packets behind it that were never sent alone.
    grown = Segment(103, PUBLISHER, PORT, sent[199].sequence, sent[199].data + publish(200, 0) + publish(201, 0))
    found = figures(tmp_path / "joined.pcap", [*sent[:53], joined, *sent[53:], grown])
    assert found["published"] == 202
    publisher = found["segments"]["publisher"]
    assert (publisher["sent_again"], publisher["histogram"]) == (1, {"1": 200, "2": 1})


def test_after_a_gap_counting_goes_on_with_the_next_segment(tmp_path: Path) -> None:
    segments = [Segment(100 + n, PUBLISHER, PORT, 100 * n, publish(n, 0)) for n in range(3)]
    segments[0].data = segments[0].data[:-1]
    assert figures(tmp_path / "gap.pcap", segments)["published"] == 2
