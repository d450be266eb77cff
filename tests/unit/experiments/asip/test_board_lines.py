"""ASIP's lines: read in pieces of any size, and requests and reports as long as published."""

import random

import pytest

from looplab.errors import LabError
from looplab.experiments.asip.board import BOARDS, LineBuffer

LINES = b"!asip ready\n@#,?,1,0,ATmega2560,70,AsipIO\n@I,d,7,20\n~I,d,6{WRONG_MODE}\n@I,d,x,y\n@I,a,1,{0:5}\n@I,p,0\n"


def test_lines_are_the_same_however_their_bytes_arrive() -> None:
    chance = random.Random(16)
    for _ in range(20):
        reader, read, at = LineBuffer(), b"", 0
        while at < len(LINES):
            size = chance.randrange(1, 12)
            whole = reader.whole(LINES[at : at + size])
            assert whole[-1:] in (b"", b"\n")
            read += whole
            at += size
        assert read == LINES


@pytest.mark.parametrize(("kind", "report"), [("mega", b"@I,d,7,20\n"), ("uno", b"@I,d,4,10\n")])
def test_a_report_names_port_and_bits_of_its_pin(kind: str, report: bytes) -> None:
    assert BOARDS[kind].report(4, 1) == report


def test_bytes_that_are_no_lines_are_an_error() -> None:
    with pytest.raises(LabError, match="no lines"):
        LineBuffer().whole(b"x" * 3000)
