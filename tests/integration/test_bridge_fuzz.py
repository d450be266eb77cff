"""Damaged bytes from the robot and from the broker: no crash, no hang, no answer that belongs to another request.

Seeded. LOOPLAB_FUZZ_BYTES=1000000 gives each side a million (some minutes); by default it is what a few seconds take.
"""

from __future__ import annotations

import json
import os
import random
import socket
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from parts import HOST, LIMIT_S, Child, Listener, RobotDouble, numbered_line, until

from looplab.protocol import (
    ONLINE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    Answer,
    parse_answer,
)

FUZZ_BYTES = int(os.environ.get("LOOPLAB_FUZZ_BYTES") or 8_000)
# Fewer than there are numbers, so that every request is written to the robot at once.
OUTSTANDING = 8

pytestmark = pytest.mark.timeout(600 + FUZZ_BYTES // 1000)


class Spoiler:
    """Damages a robot's answers; counts its bytes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bytes = 0

    def spoil(self, line: bytes) -> bytes:
        chance = self.random
        noise = chance.randbytes(chance.randint(1, 60)).replace(b"\n", b"")
        place = chance.randrange(len(line) - 1)
        kind = chance.choices(range(8), (40, 20, 10, 8, 8, 8, 3, 3))[0]
        out = (
            line,
            noise + b"\n" + line,
            noise + line,
            line[:place],
            line + line,
            line[:place] + bytes([chance.randrange(256)]) + line[place + 1 :],
            b"\n" * chance.randint(1, 9) + line,
            b"",
        )[kind]
        self.bytes += len(out)
        return out


class Heard:
    """Counts the answers on the broker, looking at each message once."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._seen = self._answers = 0

    def count(self) -> int:
        fresh = self._listener.messages[self._seen :]
        self._seen += len(fresh)
        self._answers += sum(message.topic == TOPIC_ANSWER for message in fresh)
        return self._answers


def parsed(listener: Listener) -> list[Answer]:
    found = [parse_answer(payload) for payload in listener.payloads(TOPIC_ANSWER)]
    assert None not in found
    return [answer for answer in found if answer is not None]


def well_again(listener: Listener) -> None:
    """Asks until there is a good answer."""
    sequence = 10_000_000

    def answered() -> bool:
        nonlocal sequence
        sequence += 1
        listener.say(TOPIC_REQUEST, f"T-well-{sequence}")
        return listener.last(TOPIC_ANSWER).startswith(b"well,") and b",ok," in listener.last(TOPIC_ANSWER)

    until(answered, "a good answer")


def online(listener: Listener) -> None:
    for topic in (TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS):
        until(lambda topic=topic: listener.last(topic) == ONLINE, topic)  # type: ignore[misc]


def info(listener: Listener) -> dict[str, Any]:
    return dict(json.loads(listener.last(TOPIC_BRIDGE_INFO) or b"{}"))


def test_damaged_answers_are_never_taken_for_anothers(start_bridge: Callable[..., Child], listener: Listener) -> None:
    """The robot answers its k-th request with k: an answer taken for good must be its own request's k."""
    spoiler = Spoiler(FUZZ_BYTES)
    robot = RobotDouble(numbered=True)
    robot.answer_numbered = lambda k, letter: spoiler.spoil(numbered_line(letter, k % 100_000))
    try:
        bridge = start_bridge(SERIAL_URL=robot.url)
        online(listener)
        heard = Heard(listener)
        asked = 0
        while spoiler.bytes < FUZZ_BYTES:
            until(lambda: asked - heard.count() < OUTSTANDING, "answers to what was asked")  # noqa: B023
            listener.client.publish(TOPIC_REQUEST, f"T-run-{asked}", 1)
            asked += 1
        until(lambda: heard.count() >= asked, "an answer to each request")
        found = sorted(parsed(listener), key=lambda answer: answer.sequence)
        assert [answer.sequence for answer in found] == list(range(asked))
        # One that found the robot not settled was not written; all others were, in order.
        written = [answer for answer in found if answer.status != b"offline"]
        assert robot.asked == len(written)
        good = [(k, answer.value) for k, answer in enumerate(written) if answer.status == b"ok"]
        assert [pair for pair in good if pair[1] != b"%d.%02d" % divmod(pair[0] % 100_000, 100)] == []
        assert len(good) > asked // 3
        assert {b"ok", b"garbled", b"timeout"} <= {answer.status for answer in found}
        robot.answer_numbered = lambda k, letter: numbered_line(letter, 2550)
        well_again(listener)
        assert bridge.process.poll() is None
        assert "Traceback" not in bridge.said()
    finally:
        robot.unplug()


@pytest.mark.parametrize("framing", ["line", "burst"])
def test_anything_at_all_from_a_robot_without_numbers(
    start_bridge: Callable[..., Child], listener: Listener, robot: RobotDouble, framing: str
) -> None:
    chance = random.Random(FUZZ_BYTES)
    told = 0

    def answer(_number: int) -> bytes:
        nonlocal told
        noise = chance.randbytes(chance.randint(0, 400))
        told += len(noise)
        return noise.replace(b"\n", b"") + b"\r\n25.50\r\n" if chance.random() < 0.7 else noise

    robot.answer = answer
    bridge = start_bridge(ROBOT_FRAMING=framing)
    online(listener)
    asked = 0
    while told < FUZZ_BYTES:
        listener.say(TOPIC_REQUEST, f"T-run-{asked}")
        asked += 1
    robot.answer = lambda _number: b"25.50\r\n"
    well_again(listener)
    assert bridge.process.poll() is None
    assert "Traceback" not in bridge.said()


def test_anything_at_all_on_the_request_topic(
    start_bridge: Callable[..., Child], listener: Listener, robot: RobotDouble
) -> None:
    """Good requests among others that differ from them by a byte or in everything: each good one is answered."""
    chance = random.Random(FUZZ_BYTES)
    bridge = start_bridge()
    online(listener)
    heard = Heard(listener)
    sent = malformed = good = 0
    while sent < FUZZ_BYTES:
        payload = b"E-run-%d" % good
        if chance.random() < 0.6:
            place = chance.randrange(len(payload))
            payload = chance.choice((
                chance.randbytes(chance.randint(0, 300)),
                payload[:place] + chance.choice(b"\0\n,;/+# \xc3\xff").to_bytes() + payload[place:],
                payload[:2],
            ))  # fmt: skip
            malformed += 1
        else:
            good += 1
        sent += len(payload)
        listener.client.publish(TOPIC_REQUEST, payload, 1)
        while good - heard.count() > 50:
            time.sleep(0.002)
    until(lambda: heard.count() == good, f"{good} answers")
    found = parsed(listener)
    assert [(answer.sequence, answer.status) for answer in found] == [(k, b"ok") for k in range(good)]
    until(lambda: info(listener)["counts"]["malformed"] == malformed, f"{malformed} malformed counted")
    assert robot.asked == 0
    assert bridge.process.poll() is None


def packet(chance: random.Random) -> bytes:
    """Something like an MQTT packet: a fixed header that is mostly true, and anything in it."""
    body = chance.randbytes(chance.randint(0, 24))
    if chance.random() < 0.3:
        topic = chance.choice((b"request/", b"request/", b"\xff\xfe", b""))
        body = len(topic).to_bytes(2, "big") + topic + b"T-run-" + chance.choice(string.digits).encode()
    length = len(body) if chance.random() < 0.9 else chance.randrange(128)
    return bytes([chance.randrange(256), length]) + body


def test_a_broker_that_talks_nonsense(start_bridge: Callable[..., Child], robot: RobotDouble) -> None:
    """It accepts the bridge, then says anything: the bridge drops it and comes again, and serves in the end."""
    chance = random.Random(FUZZ_BYTES)
    wanted = FUZZ_BYTES if "LOOPLAB_FUZZ_BYTES" in os.environ else FUZZ_BYTES // 4
    sent = connections = 0
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(LIMIT_S)
        bridge = start_bridge(BROKER_PORT=str(server.getsockname()[1]))
        while sent < wanted or connections < 10:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                pytest.fail(f"the bridge does not come again: {bridge.said()}")
            connections += 1
            with connection:
                connection.settimeout(LIMIT_S)
                assert connection.recv(1)[0] == 0x10, "CONNECT"
                nonsense = b"\x20\x02\x00\x00" + b"".join(packet(chance) for _ in range(chance.randint(1, 40)))
                sent += len(nonsense)
                try:
                    connection.sendall(nonsense)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    continue
            assert bridge.process.poll() is None, bridge.said()
    time.sleep(0.1)
    assert bridge.process.poll() is None, bridge.said()
    assert "Traceback" not in bridge.said(), bridge.said()
    assert bridge.stop() == 0
