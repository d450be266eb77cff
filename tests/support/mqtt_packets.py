"""MQTT 3.1.1 framing: make control packets and cut a byte stream into them."""

import random
from collections.abc import Iterator

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = (
    0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xB0, 0xC0, 0xD0, 0xE0,
)  # fmt: skip


class MalformedPacketError(ValueError):
    """Report bytes that are no MQTT packet."""


def packet(header: int, body: bytes = b"") -> bytes:
    """Return a packet whose length is true."""
    length, rest = b"", len(body)
    while rest > 127:
        length += bytes([rest & 127 | 128])
        rest >>= 7
    return bytes([header]) + length + bytes([rest]) + body


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2, "big") + data


def publish(payload: str | bytes, topic: str | bytes = "request/", qos: int = 0, identifier: int = 7) -> bytes:
    data = payload.encode() if isinstance(payload, str) else payload
    return packet(PUBLISH | qos << 1, text(topic) + (identifier.to_bytes(2, "big") if qos else b"") + data)


def random_splits(stream: bytes, dice: random.Random) -> Iterator[bytes]:
    """Cut the stream into pieces of very different sizes, single bytes among them."""
    while stream:
        size = dice.choice((1, 1, 2, 3, 7, 100, 1500, 70_000))
        yield stream[:size]
        stream = stream[size:]


def body_of(raw: bytes) -> bytes:
    """Return a packet without its header byte and length."""
    start = 2
    while raw[start - 1] & 0x80:
        start += 1
    return raw[start:]


def cut(pending: bytearray) -> Iterator[bytes]:
    """Take the whole packets off `pending`, however the stream was split.

    Raise MalformedPacketError at a remaining length of more than four bytes.
    """
    while (length := _first_length(pending)) and length <= len(pending):
        yield bytes(pending[:length])
        del pending[:length]


def _first_length(pending: bytearray) -> int:
    """Return the bytes of the first packet with its header; 0 while the header is incomplete."""
    remaining = 0
    for position, byte in enumerate(pending[1:5]):
        remaining |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return 2 + position + remaining
    if len(pending) >= 5:
        raise MalformedPacketError("a remaining length of more than four bytes")
    return 0
