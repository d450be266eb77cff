"""ASIP's lines: read in pieces of any size, and requests and reports as long as published."""

import random

import pytest

from looplab.errors import LabError
from looplab.experiments.asip.board import (
    ANALOG,
    BOARDS,
    ERROR,
    IDENTITY,
    INPUT,
    OTHER,
    PORT,
    READY,
    Lines,
    Message,
    set_mode,
    write_pin,
)

LINES = b"!asip ready\n@#,?,1,0,ATmega2560,70,AsipIO\n@I,d,7,20\n~I,d,6{WRONG_MODE}\n@I,d,x,y\n@I,a,1,{0:5}\n@I,p,0\n"
MESSAGES = [
    Message(READY, 12), Message(IDENTITY, 30), Message(PORT, 10, 7, 0x20), Message(ERROR, 19), Message(ERROR, 9),
    Message(ANALOG, 13), Message(OTHER, 7),
]  # fmt: skip


def test_messages_are_the_same_however_their_bytes_arrive() -> None:
    chance = random.Random(16)
    for _ in range(20):
        reader, read, at = Lines(), [], 0
        while at < len(LINES):
            size = chance.randrange(1, 12)
            read += reader.take(LINES[at : at + size])
            at += size
        assert read == MESSAGES


def test_requests_are_as_long_as_published() -> None:
    assert write_pin(13, 1) == b"I,d,13,1\n"
    assert set_mode(4, INPUT) == b"I,P,4,1\n"


@pytest.mark.parametrize("kind", ["mega", "uno"])
@pytest.mark.parametrize("pin", [2, 4, 13])
def test_a_report_is_read_as_the_pin_that_it_is_of(kind: str, pin: int) -> None:
    board = BOARDS[kind]
    for level in (0, 1):
        [message] = Lines().take(board.report(pin, level))
        assert message == Message(
            PORT, len(board.report(pin, level)), board.pins[pin].port, level << board.pins[pin].bit
        )


def test_bytes_that_are_no_lines_are_an_error() -> None:
    with pytest.raises(LabError, match="no lines"):
        Lines().take(b"x" * 3000)
