"""A broker that lets a bridge in, then says anything: packets framed right and filled wrong, or not framed at all."""

import contextlib
import random
import socket
from collections.abc import Iterator

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, LoopAnswer, parse_answer
from looplab.mqtt.packets import PacketBuffer, parse_publish
from support import mqtt_packets as mqtt
from support.parts import HOST, LIMIT_S

WELCOME = bytes([mqtt.CONNACK, 2, 0, 0])
PINGS = (mqtt.PINGREQ, mqtt.PINGRESP)
CONFIRMATIONS = (mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBREL | 2, mqtt.PUBCOMP, mqtt.SUBACK, mqtt.UNSUBACK)


def request(payload: bytes) -> bytes:
    """Return a good request at QoS 0."""
    return mqtt.publish(payload, TOPIC_REQUEST)


def framed(chance: random.Random) -> bytes:
    """A packet as a broker may send it, except for its content; most leave a client its connection."""
    if chance.random() < 0.75:
        return _publish(chance)
    if chance.random() < 0.02:
        return mqtt.packet(chance.randrange(256), chance.randbytes(chance.randint(0, 24)))
    header = chance.choice((*CONFIRMATIONS, *PINGS))
    return mqtt.packet(header, b"" if header in PINGS else b"\0" + chance.randbytes(1 + (header == mqtt.SUBACK)))


def unframed(chance: random.Random) -> bytes:
    """Bytes whose lengths may lie."""
    body = chance.randbytes(chance.randint(0, 24))
    length = len(body) if chance.random() < 0.7 else chance.randrange(256)
    return bytes([chance.randrange(256), length]) + body


def _publish(chance: random.Random) -> bytes:
    qos = chance.choices((0, 1, 2, 3), (600, 250, 145, 5))[0]
    topics = (TOPIC_REQUEST.encode(), b"lab/bridge/status", chance.randbytes(chance.randint(1, 20)), b"")
    topic = chance.choices(topics, (700, 100, 195, 5))[0]
    mid = chance.randrange(1, 200).to_bytes(2, "big") if qos else b""
    payload = chance.choice((
        chance.randbytes(chance.randint(0, 300)),
        b"E-noise-%d" % chance.randrange(1000),
        b"T-noise-%d" % chance.randrange(1000),
        b"T-" + chance.randbytes(chance.randint(0, 9)) + b"-1",
        b"E-noise-" + b"9" * chance.randint(1, 2000),
    ))  # fmt: skip
    header = mqtt.PUBLISH | chance.choice((0, 8)) | qos << 1 | chance.choice((0, 1))
    return mqtt.packet(header, mqtt.text(topic) + mid + payload)


class Visit:
    """One connection of the bridge's. What it says at QoS 1 and 2 is confirmed, as a broker does.

    A bridge that neither reads, answers nor hangs up for LIMIT_S is a TimeoutError.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(LIMIT_S)
        self._packets = self._heard()

    def begins(self) -> bool:
        """The bridge introduces itself."""
        return next(self._packets, b"\0")[0] == mqtt.CONNECT

    def say(self, data: bytes) -> bool:
        """False where the bridge has hung up."""
        try:
            self._sock.sendall(data)
        except ConnectionError:
            return False
        return True

    def answers(self) -> Iterator[LoopAnswer]:
        """What the bridge says on the topic of answers, up to the end of the connection."""
        for raw in self._packets:
            if raw[0] & 0xF0 == mqtt.PUBLISH:
                topic, _, payload = parse_publish(raw)
                if topic == TOPIC_ANSWER.encode():
                    answer = parse_answer(payload)
                    assert answer is not None, payload
                    yield answer

    def leave(self) -> None:
        """Say no more; returns when the bridge has hung up, too."""
        # It may be gone already.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
        for _ in self._packets:
            pass

    def close(self) -> None:
        self._sock.close()

    def _heard(self) -> Iterator[bytes]:
        """Yield each packet; end where the bridge hangs up."""
        buffer = PacketBuffer()
        with contextlib.suppress(ConnectionError):
            while more := self._sock.recv(65536):
                for raw in buffer.packets(more):
                    self._confirm(raw)
                    yield raw

    def _confirm(self, raw: bytes) -> None:
        qos = (raw[0] & 6) >> 1
        if raw[0] & 0xF0 == mqtt.PUBLISH and qos:
            self.say(mqtt.packet(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, parse_publish(raw)[1]))
        elif raw[0] & 0xF0 == mqtt.PUBREL:
            self.say(mqtt.packet(mqtt.PUBCOMP, raw[2:4]))


class NonsenseBroker:
    """Listens on `port`."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0))
        self._server.settimeout(LIMIT_S)
        self.port = int(self._server.getsockname()[1])

    def visit(self) -> Visit:
        """The bridge's next connection. A TimeoutError where none comes within LIMIT_S."""
        sock, _ = self._server.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Visit(sock)

    def close(self) -> None:
        self._server.close()
