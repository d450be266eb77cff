"""Which answer of the robot belongs to which request, and what the bridge appends to its own."""

import random
import re
from collections import deque

import pytest

from looplab.experiments.loop.bridge.answer_times import MOST_LEAVING, AnswerTimes, Times
from looplab.experiments.loop.bridge.robot_answers import (
    NUMBERS,
    Answers,
    Faults,
    NumberedAnswer,
    Window,
    check_letter,
    parse_numbered,
)
from looplab.experiments.loop.protocol import parse_answer

STATE = b"-12 340 5 -87"


def line(letter: int, body: bytes) -> bytes:
    text = bytes([letter]) + body
    return text + bytes([check_letter(text)])


@pytest.mark.parametrize(
    ("body", "value"),
    [(b"2557", b"25.57"), (b"-7", b"-0.07"), (b"-525", b"-5.25"), (b"0", b"0.00"), (b"E", b""), (STATE, STATE)],
)
def test_a_line_is_its_number_and_its_value(body: bytes, value: bytes) -> None:
    assert parse_numbered(line(ord("l"), body)) == NumberedAnswer(ord("l"), value)


def test_a_line_with_one_wrong_byte_is_never_another_answer() -> None:
    bodies = (b"0", b"7", b"2557", b"-525", b"12500", b"2446", b"-44", b"1890", b"35 0 0 0", STATE)
    for whole in (line(letter, body) for letter in NUMBERS for body in bodies):
        for place in range(len(whole)):
            for byte in range(256):
                if byte != whole[place]:
                    assert parse_numbered(whole[:place] + bytes([byte]) + whole[place + 1 :]) is None
            assert parse_numbered(whole[:place] + whole[place + 1 :]) is None
            assert parse_numbered(whole[:place] + whole[place : place + 1] + whole[place:]) is None


@pytest.mark.parametrize(
    ("pieces", "stand_for"),
    [
        ([b"25.57\r\n"], [1]),
        ([b"25.", b"5", b"7\r\n"], [1, 0, 0]),
        ([b"25.57\r\n26.", b"01\r\n"], [2, 0]),
        ([b"25.57\r\n26.01\r\n"], [2]),
        ([b"25.57\r\n", b"26.01\r", b"\n27.00\r\n"], [1, 1, 1]),
        ([b"\xff\x00", b",", b"x" * 300], [1, 0, 0]),
        ([b"looplab mbot_ranger 0.3.0 ready\r\n", b"25.57\r\n"], [1]),
    ],
)
def test_raw_bytes_are_an_answer_that_stands_for_the_lines_that_begin_in_it(
    pieces: list[bytes], stand_for: list[int]
) -> None:
    robot = Answers("raw", Faults())
    found = [reply for piece in pieces for reply in robot.cut(piece)[0]]
    assert [reply.stands_for for reply in found] == stand_for
    assert all(re.fullmatch(rb"[ -+\--~]{1,32}", reply.value) for reply in found)


def test_what_is_forgotten_is_nobodys_answer() -> None:
    window = Window()
    sent = b"".join(window.ask() for _ in range(3))
    window.forget()
    assert [window.answered(number) for number in sent] == [None, None, None]


@pytest.mark.parametrize("seed", range(5))
def test_pairs_stay_true_whatever_is_lost(seed: int) -> None:
    """Against a robot that knows which request each of its answers is for."""
    random_robot = random.Random(seed)
    window = Window()
    waiting: deque[int] = deque()
    on_the_wire: deque[tuple[int, int]] = deque()
    written = asked = answered = 0

    def put(sent: bytes) -> None:
        nonlocal written
        for byte in sent:
            # A level of the wheels' voltage follows its number.
            if byte < 128:
                on_the_wire.append((written, byte % 32 + 96))
                written += 1

    for _ in range(20_000):
        if random_robot.random() < 0.5 and len(waiting) < 40:
            waiting.append(asked)
            asked += 1
            put(window.ask(random_robot.choice([b"T", b"\xc0"])))
        elif on_the_wire:
            request, letter = on_the_wire.popleft()
            if random_robot.random() < 0.2 and on_the_wire:
                continue
            found = window.answered(letter)
            assert found is not None
            skipped, letters = found
            for _ in range(skipped):
                waiting.popleft()
            assert waiting.popleft() == request
            answered += 1
            put(letters)
    assert answered > 5000


RUN = b"run"


def nothing() -> None:
    """No stamp is there."""


def times(sequence: int, wake_up_ns: int = 70) -> Times:
    return Times(sequence, answered_ns=1000, wire_robot_ns=500, wait_ns=0, wake_up_ns=wake_up_ns)


def told(sent: AnswerTimes, *, stamped: bool = True) -> tuple[int, int, int]:
    """Return what the next answer reports: sequence, wake-up, send path."""
    found = parse_answer(b"run,9,ok,5,20.0" + sent.take(RUN, stamped, nothing))
    assert found is not None
    return found.wire_sequence, found.wake_up_ns, found.send_path_ns


def test_the_kernel_is_asked_if_it_has_not_said_yet() -> None:
    sent, first = AnswerTimes(), times(0)
    sent.add(RUN, first)
    assert sent.take(RUN, True, lambda: first.left(1030)) == b",0,500,0,70,30"


def test_answers_that_leave_late_are_all_reported_in_order() -> None:
    sent, every = AnswerTimes(), [times(sequence) for sequence in range(4)]
    for one in every:
        assert told(sent) == (-1, -1, -1)
        sent.add(RUN, one)
    for one in every:
        one.left(2000)
    assert [told(sent)[0] for _ in range(5)] == [0, 1, 2, 3, -1]


def test_an_answer_without_a_stamp_does_not_hold_up_later_ones() -> None:
    sent, second = AnswerTimes(), times(1)
    sent.add(RUN, times(0))
    sent.add(RUN, second)
    second.left(1001)
    assert [told(sent), told(sent)] == [(0, 70, -1), (1, 70, 1)]


def test_stamps_that_never_come_do_not_fill_the_memory() -> None:
    sent = AnswerTimes()
    for sequence in range(3 * MOST_LEAVING):
        sent.take(RUN, True, nothing)
        sent.add(RUN, times(sequence))
    assert told(sent)[0] == 2 * MOST_LEAVING
