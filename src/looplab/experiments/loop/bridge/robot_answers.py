"""What the robot sends, cut into answers.

Framing `line`: each line is one answer, and the robot is asked by number (request_window.py): no lost answer shifts
the others. Framing `burst`: the lines that wait together are one answer, as when a program reads the port until it is
empty; two answers that meet there count as one.
"""

import re
from typing import NamedTuple

from looplab.experiments.loop.bridge.request_window import STATE, Window, parse_numbered

LONGEST_LINE_BYTES = 256
# The bridge counts each of these faults of a robot in use.
UNPLUGGED, RESET, SILENT, NOISE, SENSOR = "unplugged", "reset", "silent", "noise", "sensor"

_VALUE = re.compile(rb"-?[0-9]{1,4}(\.[0-9]{1,3})?|" + STATE)
# How the lab's firmware identifies itself: name and version (firmware/mbot_ranger/protocol.h).
_IDENTITY = re.compile(rb"looplab [!-~]{1,32} [!-~]{1,16}( ready)?")
_PRINTABLE = re.compile(rb"[ -~]{1,80}")
_READY = b" ready"
_ERROR = b"ERR"


class Reply(NamedTuple):
    """One answer: `value` is b"" if it cannot be read or the sensor cannot.

    It answers `stands_for` requests (more than one if a burst merged lines, none if no request waits for it) after
    `skipped` ones whose answers were lost, in the order they were written; `garbled`: something unreadable came.
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
        self._numbered = framing == "line"
        self._faults = faults
        self._window = Window()
        self._buffer = b""

    def forget(self) -> None:
        """Forget half answers and numbered requests."""
        self._buffer, self.garbled = b"", False
        self._window.forget()

    def ask(self, command: bytes) -> bytes:
        """Return the bytes to send for one more request, b"" if it must wait for a free number."""
        return self._window.ask(command) if self._numbered else command

    def cut(self, data: bytes) -> tuple[list[Reply], bytes]:
        """Return the answers that are whole now that `data` has arrived, and the bytes to send next."""
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


class Greeting:
    """Hears the robot out until it has identified itself, by its ready line or, once `asked`, in answer to `?`."""

    def __init__(self) -> None:
        self.asked = False
        self.identity = ""
        # Whether it was the ready line: then no earlier answer is on its way.
        self.ready = False
        # Half a ready line came: the robot is there, so it can be asked at once.
        self.half = False
        self._buffer = b""
        self._stranger = ""

    def hear(self, data: bytes) -> None:
        """Set `identity` if it is in what has come so far."""
        self._buffer += data
        *lines, self._buffer = self._buffer[-LONGEST_LINE_BYTES:].split(b"\n")
        for line in lines:
            text = line.strip()
            self.ready = text.endswith(_READY)
            if _IDENTITY.fullmatch(text) and (self.ready or self.asked):
                self.identity = text.removesuffix(_READY).decode()
                return
            if not _IDENTITY.fullmatch(text):
                self.half = self.half or self.ready
                if text:
                    printable = _PRINTABLE.fullmatch(text)
                    self._stranger = f"says {text.decode()!r}" if printable else "says nothing readable"

    def ask(self) -> bytes:
        """Return the bytes that ask for the identity."""
        self.asked, self._buffer = True, b""
        return b"?"

    def describe(self) -> str:
        """Return what answered instead of a robot."""
        stranger = self._stranger or ("says nothing readable" if self._buffer else "")
        return f"what is there {stranger}" if stranger else "no robot answers on it"
