"""Numbered requests: each answer is paired with its request although answers between them were lost.

For `T` a request is one lower-case letter, its number; the answer is a line of that letter, the value in hundredths and
a check letter: `c2557L` is 25.57 asked for by `c`. On the wire it takes as long as `T` and `25.57`. Any other command
has its number before it, as a control character (`c` is 3); the answer has its value between the letters. The
firmware's side is firmware/mbot_ranger/protocol.c.
"""

import re
from collections import deque
from typing import NamedTuple

# Letters that differ in two bits at least: one flipped on the wire makes no other request's number.
NUMBERS = bytes(letter for letter in range(ord("a"), ord("z") + 1) if letter.bit_count() % 2 == 0)
# Offset from a request's control character (1 to 26) to its letter.
CONTROL = 96
TEMPERATURE = b"T"
# No digit, space or minus is a multiple of it, so the check finds a byte that was lost or doubled.
CHECK_MODULUS = 23

# Tilt, its rate, way and speed of a robot on two wheels.
STATE = rb"-?[0-9]{1,5}(?: -?[0-9]{1,5}){3}"
_ANSWER = re.compile(rb"([a-z])(-?[0-9]{1,5}|" + STATE + rb"|E)([A-W])")


class NumberedAnswer(NamedTuple):
    """One answer: `number` is its request's letter, `value` as text, b"" if the robot could not measure."""

    number: int
    value: bytes


def check_letter(text: bytes) -> int:
    """Return the letter that ends an answer whose other bytes are `text`."""
    return ord("A") + sum(text) % CHECK_MODULUS


def parse_numbered(line: bytes) -> NumberedAnswer | None:
    """Return the answer in `line` (without its line end), None if it is damaged or its number is not in NUMBERS."""
    match = _ANSWER.fullmatch(line)
    if match is None or line[0] not in NUMBERS or line[-1] != check_letter(line[:-1]):
        return None
    digits = match[2]
    if digits == b"E":
        return NumberedAnswer(line[0], b"")
    if b" " in digits:
        return NumberedAnswer(line[0], digits)
    sign, digits = (b"-", digits[1:]) if digits.startswith(b"-") else (b"", digits)
    digits = digits.rjust(3, b"0")
    return NumberedAnswer(line[0], sign + digits[:-2] + b"." + digits[-2:])


class Window:
    """The numbers under way to the robot and back, in order; at most one of each, so that none is ambiguous."""

    def __init__(self) -> None:
        self._under_way: deque[int] = deque()
        self._waiting: deque[bytes] = deque()
        self._next = 0

    def ask(self, command: bytes = TEMPERATURE) -> bytes:
        """Add a request and return the bytes to send now, none if it must wait for a free number."""
        self._waiting.append(command)
        return self._send()

    def answered(self, number: int) -> tuple[int, bytes] | None:
        """Return (unanswered requests before it, bytes to send now); None if no request waits for `number`."""
        if number not in self._under_way:
            return None
        skipped = self._under_way.index(number)
        for _ in range(skipped + 1):
            self._under_way.popleft()
        return skipped, self._send()

    def forget(self) -> None:
        """Forget every request: all are lost."""
        self._under_way.clear()
        self._waiting.clear()

    def _send(self) -> bytes:
        sent = b""
        while self._waiting and len(self._under_way) < len(NUMBERS):
            number, command = NUMBERS[self._next], self._waiting.popleft()
            self._under_way.append(number)
            self._next = (self._next + 1) % len(NUMBERS)
            sent += bytes([number]) if command == TEMPERATURE else bytes([number - CONTROL]) + command
        return sent
