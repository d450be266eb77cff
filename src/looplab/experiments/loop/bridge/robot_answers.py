"""What the robot sends, cut into answers.

Framing `raw`, as listing A.4: whatever bytes wait are one answer, half a line too; the rest of that line is another.

Framing `burst`: the lines that wait together are one answer, as when a program reads the port until it is empty; two
answers that meet there count as one. Framing `line`: each line is one answer, and requests have numbers, so that each
answer is paired with its request although answers between them were lost.

For `T` a numbered request is one lower-case letter; the answer is a line of that letter, the value in hundredths and a
check letter: `c2557L` is 25.57 asked for by `c`. On the wire it takes as long as `T` and `25.57`. Any other command
has its number before it, as a control character (`c` is 3); the answer has its value between the letters, a level of
light or sound in hundredths, too. The firmware's side is firmware/mbot_ranger/protocol.c.
"""

import re
from collections import deque
from typing import NamedTuple

from looplab.experiments.loop.protocol import FRAMINGS, RAW

# Letters that differ in two bits at least: one flipped on the wire makes no other request's number.
NUMBERS = bytes(letter for letter in range(ord("a"), ord("z") + 1) if letter.bit_count() % 2 == 0)
# Offset from a request's control character (1 to 26) to its letter.
CONTROL = 96
TEMPERATURE = b"T"
# No digit, space or minus is a multiple of it, so the check finds a byte that was lost or doubled.
CHECK_MODULUS = 23

# Tilt, its rate, way and speed of a robot on two wheels.
STATE = rb"-?[0-9]{1,5}(?: -?[0-9]{1,5}){3}"
_ANSWER = re.compile(rb"([a-z])(-?[0-9]{1,6}|" + STATE + rb"|E)([A-W])")
LONGEST_LINE_BYTES = 256
# Of a raw answer the bridge passes on so much; a byte that would break the answer's form becomes a space.
MOST_VALUE_BYTES = 32
_READABLE = bytes(byte if 32 <= byte < 127 and byte != ord(",") else 32 for byte in range(256))
# The bridge counts each of these faults of a robot in use.
UNPLUGGED, RESET, SILENT, NOISE, SENSOR = "unplugged", "reset", "silent", "noise", "sensor"

_VALUE = re.compile(rb"-?[0-9]{1,4}(\.[0-9]{1,3})?|" + STATE)
# How the lab's firmware identifies itself: name and version (firmware/mbot_ranger/protocol.h).
_IDENTITY = re.compile(rb"looplab [!-~]{1,32} [!-~]{1,16}( ready)?")
_READY = b" ready"
_ERROR = b"ERR"


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


class Reply(NamedTuple):
    """One answer: `value` is b"" if it cannot be read or the sensor cannot.

    It answers `stands_for` requests: more than one if it merged lines, none if no request waits for it or it is the
    rest of a line. The answers to `skipped` requests before these were lost. `garbled`: something unreadable came.
    """

    value: bytes
    stands_for: int = 1
    skipped: int = 0
    garbled: bool = False


class Faults(dict[str, int]):
    """How often each fault happened; `last` describes the last one."""

    last = ""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((UNPLUGGED, RESET, SILENT, NOISE, SENSOR), 0))

    def note(self, kind: str, words: str) -> None:
        self[kind] += 1
        self.last = words


class Answers:
    """Replies from the bytes of one robot, and with framing `line` the requests that wait for them."""

    def __init__(self, framing: str, faults: Faults) -> None:
        # Something unreadable came since the last good answer.
        self.garbled = False
        # The robot forgot what it was asked.
        self.restarted = False
        self._numbered, self._raw = framing == FRAMINGS["corrected"], framing == RAW
        self._faults = faults
        self._window = Window()
        self._buffer = b""

    def forget(self) -> None:
        """Forget half answers and numbered requests."""
        self._buffer, self.garbled = b"", False
        self._window.forget()

    def identity(self, data: bytes, *, asked: bool) -> tuple[str, bool] | None:
        """Return who the robot says that it is, and whether by its ready line: then no answer is on its way.

        None before that. What it says without a ready line counts if it was `asked`.
        """
        *lines, self._buffer = (self._buffer + data)[-LONGEST_LINE_BYTES:].split(b"\n")
        for text in (line.strip() for line in lines):
            ready = text.endswith(_READY)
            if _IDENTITY.fullmatch(text) and (ready or asked):
                return text.removesuffix(_READY).decode(), ready
        return None

    def ask(self, command: bytes) -> bytes:
        """Return the bytes to send for one more request, b"" if it must wait for a free number."""
        return self._window.ask(command) if self._numbered else command

    def cut(self, data: bytes) -> tuple[list[Reply], bytes]:
        """Return the answers that are whole now that `data` has arrived, and the bytes to send next."""
        if self._raw:
            return self._of_any_bytes(data), b""
        self._buffer += data
        if len(self._buffer) > LONGEST_LINE_BYTES and b"\n" not in self._buffer:
            self._buffer = b""
            self._note_unreadable()
            return [] if self._numbered else [Reply(b"")], b""
        if not self._numbered:
            return self._burst(), b""
        *lines, self._buffer = self._buffer.split(b"\n")
        answers = [self._line(line) for line in lines if not self._is_greeting(line)]
        return [reply for reply, _ in answers if reply], b"".join(to_send for _, to_send in answers)

    def saw_reset(self, data: bytes) -> bool:
        """Return whether a ready line is in what is ignored: then nothing of an old answer is on its way."""
        self._buffer = (self._buffer + data)[-LONGEST_LINE_BYTES:]
        *lines, rest = self._buffer.split(b"\n")
        seen = any(self._is_greeting(line) for line in lines)
        if seen:
            self._buffer = rest
        return seen

    def _line(self, line: bytes) -> tuple[Reply | None, bytes]:
        """Return the answer in a line, None if it is damaged: the next one shows which it was."""
        answer = parse_numbered(line)
        if answer is None:
            self._note_unreadable()
            return None, b""
        request = self._window.answered(answer.number)
        if request is None:
            return Reply(answer.value, stands_for=0), b""
        if not answer.value:
            self._note_no_reading()
        skipped, to_send = request
        garbled, self.garbled = self.garbled, False
        return Reply(answer.value, skipped=skipped, garbled=garbled), to_send

    def _of_any_bytes(self, data: bytes) -> list[Reply]:
        """Return one answer, and how many requests the robot began to answer in it; [] for a ready line alone."""
        begun_before = bool(self._buffer)
        *ended, rest = (self._buffer + data).split(b"\n")
        lines = [line for line in ended if not self._is_greeting(line)]
        self._buffer = rest[-LONGEST_LINE_BYTES:]
        if ended and not lines and not rest:
            return []
        return [Reply(data[:MOST_VALUE_BYTES].translate(_READABLE), max(0, len(lines) + bool(rest) - begun_before))]

    def _burst(self) -> list[Reply]:
        if not self._buffer.endswith(b"\n"):
            return []
        burst, self._buffer = self._buffer, b""
        lines = [line.strip() for line in burst.split(b"\n")[:-1] if not self._is_greeting(line)]
        if not lines:
            return []
        value = lines[0] if _VALUE.fullmatch(lines[0]) else b""
        if lines[0].startswith(_ERROR):
            self._note_no_reading()
        elif not value:
            self._note_unreadable()
        return [Reply(value, len(lines))]

    def _note_unreadable(self) -> None:
        self.garbled = True
        self._faults.note(NOISE, "bytes that are no answer came: noise on the wire, or half a line")

    def _note_no_reading(self) -> None:
        self._faults.note(SENSOR, "the robot cannot read its sensor")

    def _is_greeting(self, line: bytes) -> bool:
        """Return whether this is a ready line; in use, it means that the robot was reset and forgot its requests."""
        if not line.rstrip().endswith(_READY):
            return False
        self.restarted = True
        self._window.forget()
        self._faults.note(RESET, "the robot was reset: its button, its supply, or its watchdog")
        return True
