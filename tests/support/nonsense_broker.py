"""A broker that lets a bridge in, then says anything: packets framed right and filled wrong, or not framed at all."""

import random
import socket
from collections.abc import Iterator

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, LoopAnswer, parse_answer
from looplab.mqtt.packets import PacketBuffer, parse_publish
from support.mqtt_packets import (
    CONNACK,
    CONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    packet,
    publish,
    text,
)  # fmt: skip
from support.parts import HOST, LIMIT_S

WELCOME = bytes([CONNACK, 2, 0, 0])


def request(payload: bytes) -> bytes:
    """Return a good request at QoS 0."""
    return publish(payload, TOPIC_REQUEST)


def framed(chance: random.Random) -> bytes:
    """A packet as a broker may send it, except for its content; most leave a client its connection."""
    if chance.random() < 0.75:
        return _publish(chance)
    if chance.random() < 0.02:
        return packet(chance.randrange(256), chance.randbytes(chance.randint(0, 24)))
    header = chance.choice((PUBACK, PUBREC, PUBREL | 2, PUBCOMP, SUBACK, UNSUBACK, PINGREQ, PINGRESP))
    body = b"" if header in (PINGREQ, PINGRESP) else chance.randrange(1, 200).to_bytes(2, "big")
    if header == SUBACK:
        body += chance.randbytes(chance.randint(1, 3))
    return packet(header, body) if chance.random() < 0.98 else packet(CONNACK, bytes([0, chance.randrange(7)]))


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
    return packet(PUBLISH | chance.choice((0, 8)) | qos << 1 | chance.choice((0, 1)), text(topic) + mid + payload)


class Visit:
    """One connection of the bridge's. What it says at QoS 1 and 2 is confirmed, as a broker does."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(LIMIT_S)
        self._packets = self._heard()

    def begins(self) -> bool:
        """The bridge introduces itself."""
        return next(self._packets, b"\0")[0] == CONNECT

    def say(self, data: bytes) -> bool:
        """False where the bridge has hung up."""
        try:
            self._sock.sendall(data)
        except TimeoutError:
            raise AssertionError(f"the bridge read nothing for {LIMIT_S:.0f} s") from None
        except OSError:
            return False
        return True

    def answers(self) -> Iterator[LoopAnswer]:
        """What the bridge says on the topic of answers, up to the end of the connection."""
        for raw in self._packets:
            if raw[0] & 0xF0 == PUBLISH:
                topic, _, payload = parse_publish(raw)
                if topic == TOPIC_ANSWER.encode():
                    answer = parse_answer(payload)
                    assert answer is not None, payload
                    yield answer

    def leave(self) -> None:
        """Say no more; returns when the bridge has hung up, too."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        for _ in self._packets:
            pass

    def close(self) -> None:
        self._sock.close()

    def _heard(self) -> Iterator[bytes]:
        """Yield each packet; end where the bridge hangs up."""
        buffer = PacketBuffer()
        while True:
            try:
                more = self._sock.recv(65536)
            except TimeoutError:
                raise AssertionError(f"the bridge neither answered nor hung up for {LIMIT_S:.0f} s") from None
            except OSError:
                return
            if not more:
                return
            for raw in buffer.packets(more):
                self._confirm(raw)
                yield raw

    def _confirm(self, raw: bytes) -> None:
        qos = (raw[0] & 6) >> 1
        if raw[0] & 0xF0 == PUBLISH and qos:
            self.say(packet(PUBACK if qos == 1 else PUBREC, parse_publish(raw)[1]))
        elif raw[0] & 0xF0 == PUBREL:
            self.say(packet(PUBCOMP, raw[2:4]))


class NonsenseBroker:
    """Listens on `port`."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0))
        self._server.settimeout(LIMIT_S)
        self.port = int(self._server.getsockname()[1])

    def visit(self) -> Visit:
        """The bridge's next connection. Fails where none comes within LIMIT_S."""
        try:
            sock, _ = self._server.accept()
        except TimeoutError:
            raise AssertionError(f"the bridge did not come within {LIMIT_S:.0f} s") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Visit(sock)

    def close(self) -> None:
        self._server.close()
