"""Captures made of known MQTT packets, byte by byte, so that what a dissector counts is known before."""

from dataclasses import dataclass
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from support import mqtt_packets
from support.mqtt_packets import PUBACK, PUBCOMP, PUBREC, PUBREL

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
