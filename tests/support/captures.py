"""Captures made of known MQTT packets, byte by byte, so that what a dissector counts is known before."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

CONTROLLER, BROKER = "10.0.0.2", "10.0.0.3"
PUBLISHER, SUBSCRIBER, PORT = 40001, 40002, 1883
TOPIC = b"delay"
# MQTT 3.1.1, table 2.1: type and flags in the first byte of each acknowledgement.
_FIRST_BYTE = {"PUBACK": 0x40, "PUBREC": 0x50, "PUBREL": 0x62, "PUBCOMP": 0x70}


def publish(number: int, qos: int) -> bytes:
    """A PUBLISH with a payload of 20 bytes."""
    head = struct.pack("!H", len(TOPIC)) + TOPIC + (struct.pack("!H", number) if qos else b"")
    body = head + b"%020d" % number
    return bytes([0x30 | qos << 1, len(body)]) + body


def acknowledge(kind: str, number: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return bytes([_FIRST_BYTE[kind], 2]) + struct.pack("!H", number)


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
