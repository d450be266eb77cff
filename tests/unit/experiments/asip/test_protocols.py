"""What is on the wire: both protocols, in pieces and after pieces of something else."""

import random

import pytest

from looplab.errors import LabError
from looplab.experiments.asip.board import BOARDS, INPUT, OUTPUT
from looplab.experiments.asip.protocols import ERROR, IDENTITY, OTHER, PORT, READY, Asip, Firmata, Message, Protocol

LINES = b"!looplab asip ready\n@#,?,1,0,ATmega2560,70,AsipIO\n@I,d,7,20\n~I,d,6{WRONG_MODE}\n@I,d,x,y\n@I,a,1,{0:5}\n"
MESSAGES = [Message(READY), Message(IDENTITY), Message(PORT, 7, 0x20), Message(ERROR), Message(ERROR), Message(OTHER)]
BYTES = bytes.fromhex("f90205 901001 917f01 e00102")
OF_BYTES = [Message(READY), Message(IDENTITY), Message(PORT, 0, 0x90), Message(PORT, 1, 0xFF), Message(OTHER)]


@pytest.mark.parametrize(("protocol", "data", "wanted"), [(Asip, LINES, MESSAGES), (Firmata, BYTES, OF_BYTES)])
def test_messages_are_the_same_however_their_bytes_arrive(
    protocol: type[Protocol], data: bytes, wanted: list[Message]
) -> None:
    chance = random.Random(16)
    for _ in range(20):
        reader, found, at = protocol(), [], 0
        while at < len(data):
            size = chance.randrange(1, 12)
            found += reader.take(data[at : at + size])
            at += size
        assert found == wanted


def test_orders_are_as_long_as_published() -> None:
    assert Asip().write(13, 1) == b"I,d,13,1\n"
    assert Asip().mode(4, INPUT) == b"I,P,4,1\n"
    assert Firmata().write(13, 1) == bytes((0xF5, 13, 1))
    assert Firmata().mode(13, OUTPUT) == bytes((0xF4, 13, 1))
    # An input of port 0 is reported from then on.
    assert Firmata().mode(4, INPUT) == bytes((0xF4, 4, 0, 0xD0, 1))


@pytest.mark.parametrize("protocol", [Asip, Firmata])
@pytest.mark.parametrize("kind", ["mega", "uno"])
@pytest.mark.parametrize("pin", [2, 4, 13])
def test_a_report_is_read_as_the_pin_that_it_is_of(protocol: type[Protocol], kind: str, pin: int) -> None:
    board, one = BOARDS[kind], protocol()
    port, bit = one.place(board, pin)
    for level in (0, 1):
        assert list(one.take(one.report(board, pin, level))) == [Message(PORT, port, level << bit)]


def test_a_message_that_was_cut_off_costs_no_other() -> None:
    assert list(Firmata().take(bytes.fromhex("05 9110 901000"))) == [Message(PORT, 0, 0x10)]


def test_bytes_that_are_no_lines_are_an_error() -> None:
    with pytest.raises(LabError, match="no lines"):
        Asip().take(b"x" * 3000)
