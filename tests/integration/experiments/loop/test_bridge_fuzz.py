"""Damaged bytes from the robot and from the broker: no crash, no hang, no answer that belongs to another request.

Seeded. LOOPLAB_FUZZ_BYTES=1000000 gives each side a million (some minutes); by default it is what a few seconds take.
"""

import contextlib
import os
import random

import pytest
from support import nonsense_broker as nonsense
from support.loop_lab import LoopLab
from support.parts import Child, Listener, until
from support.robot_double import answer_line

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, LoopAnswer

FUZZ_BYTES = int(os.environ.get("LOOPLAB_FUZZ_BYTES") or 8_000)
# Fewer than there are numbers, so that every request is written to the robot at once.
OUTSTANDING = 8

pytestmark = pytest.mark.timeout(600 + FUZZ_BYTES // 1000)


def spoil(chance: random.Random, line: bytes) -> bytes:
    noise = chance.randbytes(chance.randint(1, 60)).replace(b"\n", b"")
    place = chance.randrange(len(line) - 1)
    kind = chance.choices(range(8), (40, 20, 10, 8, 8, 8, 3, 3))[0]
    return (
        line,
        noise + b"\n" + line,
        noise + line,
        line[:place],
        line + line,
        line[:place] + bytes([chance.randrange(256)]) + line[place + 1 :],
        b"\n" * chance.randint(1, 9) + line,
        b"",
    )[kind]


def value_of(number: int) -> bytes:
    """Return what a robot double's k-th answer, k in hundredths, is on the broker."""
    return b"%d.%02d" % divmod(number % 100_000, 100)


def check_alive(bridge: Child) -> None:
    assert bridge.process.poll() is None, bridge.said()
    assert "Traceback" not in bridge.said()


def test_damaged_answers_are_never_taken_for_anothers(lab: LoopLab, at_end: contextlib.ExitStack) -> None:
    """The robot answers its k-th request with k: an answer taken for good must be its own request's k."""
    chance, asked, said = random.Random(FUZZ_BYTES), 0, [0]
    answers = at_end.enter_context(contextlib.closing(Listener(lab.broker.port, TOPIC_ANSWER))).messages

    def answer(k: int, letter: int) -> bytes:
        spoilt = spoil(chance, answer_line(letter, k % 100_000))
        said[0] += len(spoilt)
        return spoilt

    lab.robot.answer = answer
    bridge = lab.online_bridge()
    while said[0] < FUZZ_BYTES:
        until(lambda: asked - len(answers) < OUTSTANDING, "answers to what was asked")  # noqa: B023
        lab.listener.client.publish(TOPIC_REQUEST, f"T-run-{asked}", 1)
        asked += 1
    until(lambda: len(answers) >= asked, "an answer to each request")
    found = sorted(lab.listener.answers, key=lambda answer: answer.sequence)
    assert [answer.sequence for answer in found] == list(range(asked))
    # One that found the robot not settled was not written; all others were, in order.
    written = [answer for answer in found if answer.status != b"offline"]
    assert lab.robot.asked == len(written)
    good = [(k, answer.value) for k, answer in enumerate(written) if answer.status == b"ok"]
    assert [pair for pair in good if pair[1] != value_of(pair[0])] == []
    assert len(good) > asked // 3
    assert {b"ok", b"garbled", b"timeout"} <= {answer.status for answer in found}
    lab.robot.answer = lambda _k, letter: answer_line(letter, 2550)
    until(lambda: lab.answer_to(len(lab.answers("well")), run="well").status == b"ok", "a good answer")
    check_alive(bridge)


def test_a_broker_that_talks_nonsense(lab: LoopLab) -> None:
    """It accepts the bridge and says anything, some of it with wrong lengths: each good request among it is answered
    with its own value or the bridge hangs up, comes again, and serves. Bytes count once a request after them was
    answered. The robot answers its k-th request with k.
    """
    chance = random.Random(FUZZ_BYTES)
    lab.robot.answer = lambda k, letter: answer_line(letter, k % 100_000)
    broker, answers = nonsense.NonsenseBroker(), list[LoopAnswer]()
    asked = read_through = visits = hung_up = 0

    def question() -> bytes:
        nonlocal asked
        asked += 1
        return nonsense.request(b"T-good-%d" % asked)

    def is_answered(visit: nonsense.Visit) -> bool:
        """Whether the last question was answered, rightly; False where the bridge hung up instead."""
        for answer in visit.answers():
            if answer.run == b"good":
                answers.append(answer)
                if answer.sequence == asked:
                    # Nothing was asked after it: with another's value, the robot has been asked more.
                    assert answer.status != b"ok" or answer.value == value_of(lab.robot.asked - 1)
                    return True
        return False

    with contextlib.closing(broker):
        bridge = lab.bridge(BROKER_PORT=str(broker.port))
        until(lambda: "robot: online" in bridge.said(), "the robot")
        while read_through < FUZZ_BYTES or visits < 10:
            with contextlib.closing(broker.visit()) as visit:
                visits += 1
                assert visit.begins(), "CONNECT"
                # Now and then it is not even let in.
                answered = chance.random() < 0.98 and visit.say(nonsense.WELCOME)
                for _ in range(chance.randrange(100) if answered else 0):
                    chunk = b"".join(nonsense.framed(chance) for _ in range(chance.randint(1, 40)))
                    answered = visit.say(chunk + question()) and is_answered(visit)
                    if not answered:
                        hung_up += 1
                        break
                    read_through += len(chunk)
                # What is asked last is under way to the robot when the connection breaks.
                tail = b"".join(nonsense.unframed(chance) for _ in range(chance.randint(1, 20)))
                if visit.say(question() + tail):
                    visit.leave()
        good = [answer for answer in answers if answer.status == b"ok"]
        print(f"{read_through} bytes, {visits} connections, {hung_up} of them ended within; {len(good)} good answers")
        assert hung_up > 0 or FUZZ_BYTES < 100_000
        assert len(good) > len(answers) // 2
        sequences = [answer.sequence for answer in answers]
        assert sequences == sorted(set(sequences)), "each once, in order"
        values = [float(answer.value) for answer in good]
        assert len(values) < 100_000
        assert values == sorted(set(values)), "no value twice"
        check_alive(bridge)
        assert bridge.stop() == 0
