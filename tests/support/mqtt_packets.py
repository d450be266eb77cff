"""MQTT 3.1.1: control packets, made. They are cut out of a stream by looplab.mqtt.packets, which is tested by paho."""

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = (
    0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xB0, 0xC0, 0xD0, 0xE0,
)  # fmt: skip


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


class Written(mqtt.Client):
    """paho, with what it would send kept in `packets`."""

    def __init__(self, protocol: mqtt.MQTTProtocolVersion = mqtt.MQTTv311, name: str = "") -> None:
        super().__init__(CallbackAPIVersion.VERSION2, client_id=name, protocol=protocol)
        self.packets: list[bytes] = []
        self._sock = self  # type: ignore[assignment]

    def send(self, data: bytes) -> int:
        self.packets.append(bytes(data))
        return len(data)

    def close(self) -> None:
        """Closes nothing."""
