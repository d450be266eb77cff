"""Damaged bytes from the robot and from the broker: no crash, no hang, no answer that belongs to another request.

Seeded. LOOPLAB_FUZZ_BYTES=1000000 gives each side a million (some minutes); by default it is what a few seconds take.
"""

import contextlib
import os
import random
import time

import pytest
from support import nonsense_broker as nonsense
from support.loop_lab import LoopLab
from support.parts import Child, Listener, until
from support.robot_double import RobotDouble, answer_line

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, LoopAnswer

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


def value_of(number: int) -> bytes:
    """Return what a robot double's k-th answer, k in hundredths, is on the broker."""
    return b"%d.%02d" % divmod(number % 100_000, 100)


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


def well_again(lab: LoopLab, bridge: Child) -> None:
    """Asks until there is a good answer, of a bridge that never crashed."""
    sequence = 10_000_000

    def answered() -> bool:
        nonlocal sequence
        sequence += 1
        lab.listener.say(TOPIC_REQUEST, f"T-well-{sequence}")
        return lab.listener.last(TOPIC_ANSWER).startswith(b"well,") and b",ok," in lab.listener.last(TOPIC_ANSWER)

    until(answered, "a good answer")
    assert bridge.process.poll() is None
    assert "Traceback" not in bridge.said()


def test_damaged_answers_are_never_taken_for_anothers(lab: LoopLab) -> None:
    """The robot answers its k-th request with k: an answer taken for good must be its own request's k."""
    spoiler = Spoiler(FUZZ_BYTES)
    robot = RobotDouble()
    robot.answer = lambda k, letter: spoiler.spoil(answer_line(letter, k % 100_000))
    try:
        bridge = lab.online_bridge(SERIAL_URL=robot.url)
        heard = Heard(lab.listener)
        asked = 0
        while spoiler.bytes < FUZZ_BYTES:
            until(lambda: asked - heard.count() < OUTSTANDING, "answers to what was asked")  # noqa: B023
            lab.listener.client.publish(TOPIC_REQUEST, f"T-run-{asked}", 1)
            asked += 1
        until(lambda: heard.count() >= asked, "an answer to each request")
        found = sorted(lab.listener.answers, key=lambda answer: answer.sequence)
        assert [answer.sequence for answer in found] == list(range(asked))
        # One that found the robot not settled was not written; all others were, in order.
        written = [answer for answer in found if answer.status != b"offline"]
        assert robot.asked == len(written)
        good = [(k, answer.value) for k, answer in enumerate(written) if answer.status == b"ok"]
        assert [pair for pair in good if pair[1] != value_of(pair[0])] == []
        assert len(good) > asked // 3
        assert {b"ok", b"garbled", b"timeout"} <= {answer.status for answer in found}
        robot.answer = lambda _k, letter: answer_line(letter, 2550)
        well_again(lab, bridge)
    finally:
        robot.unplug()


def test_anything_at_all_on_the_request_topic(lab: LoopLab) -> None:
    """Good requests among others that differ from them by a byte or in everything: each good one is answered."""
    chance = random.Random(FUZZ_BYTES)
    bridge = lab.online_bridge()
    heard = Heard(lab.listener)
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
        lab.listener.client.publish(TOPIC_REQUEST, payload, 1)
        while good - heard.count() > 50:
            time.sleep(0.002)
    until(lambda: heard.count() == good, f"{good} answers")
    found = lab.listener.answers
    assert [(answer.sequence, answer.status) for answer in found] == [(k, b"ok") for k in range(good)]
    until(lambda: lab.listener.bridge_info["counts"]["malformed"] == malformed, f"{malformed} malformed counted")
    assert lab.robot.asked == 0
    assert bridge.process.poll() is None


class Questions:
    """Good requests among nonsense, and what was answered to them: the robot answers its k-th request with k."""

    def __init__(self, robot: RobotDouble) -> None:
        self._robot = robot
        self.asked = 0
        self.answers: list[LoopAnswer] = []

    def next(self) -> bytes:
        self.asked += 1
        return nonsense.request(b"T-good-%d" % self.asked)

    def answered(self, visit: nonsense.Visit) -> bool:
        """The last one was, rightly; False where the bridge hung up instead."""
        for answer in visit.answers():
            if answer.run != b"good":
                continue
            self.answers.append(answer)
            if answer.sequence == self.asked:
                # Nothing was asked after it: if it was answered with another's value, the robot has been asked more.
                assert answer.status != b"ok" or answer.value == value_of(self._robot.asked - 1)
                return True
        return False


def test_a_broker_that_talks_nonsense(lab: LoopLab) -> None:
    """It accepts the bridge and says anything, some of it with wrong lengths: each good request among it is answered
    with its own value or the bridge hangs up, comes again, and serves. Bytes count once a request after them was
    answered.
    """
    chance = random.Random(FUZZ_BYTES)
    robot = RobotDouble()
    robot.answer = lambda k, letter: answer_line(letter, k % 100_000)
    broker, questions = nonsense.NonsenseBroker(), Questions(robot)
    read_through = visits = hung_up = 0
    try:
        bridge = lab.bridge(BROKER_PORT=str(broker.port), SERIAL_URL=robot.url)
        until(lambda: "robot: online" in bridge.said(), "the robot")
        while read_through < FUZZ_BYTES or visits < 10:
            assert bridge.process.poll() is None, bridge.said()
            with contextlib.closing(broker.visit()) as visit:
                visits += 1
                assert visit.begins(), "CONNECT"
                # Now and then it is not even let in.
                answered = chance.random() < 0.98 and visit.say(nonsense.WELCOME)
                for _ in range(chance.randrange(100) if answered else 0):
                    chunk = b"".join(nonsense.framed(chance) for _ in range(chance.randint(1, 40)))
                    answered = visit.say(chunk + questions.next()) and questions.answered(visit)
                    if not answered:
                        hung_up += 1
                        break
                    read_through += len(chunk)
                # What is asked last is under way to the robot when the connection breaks.
                tail = b"".join(nonsense.unframed(chance) for _ in range(chance.randint(1, 20)))
                if visit.say(questions.next() + tail):
                    visit.leave()
        good = [answer for answer in questions.answers if answer.status == b"ok"]
        print(f"{read_through} bytes, {visits} connections, {hung_up} of them ended within; {len(good)} good answers")
        assert hung_up > 0 or FUZZ_BYTES < 100_000
        assert len(good) > len(questions.answers) // 2
        sequences = [answer.sequence for answer in questions.answers]
        assert sequences == sorted(set(sequences)), "each once, in order"
        values = [float(answer.value) for answer in good]
        assert len(values) < 100_000
        assert values == sorted(set(values)), "no value twice"
        assert bridge.process.poll() is None
        assert "Traceback" not in bridge.said(), bridge.said()
        assert bridge.stop() == 0
    finally:
        robot.unplug()
        broker.close()
