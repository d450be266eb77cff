"""The robot's serial port: opened by name or URL, reopened with back-off, cut into answers.

Framing `line`: each line is one answer. Framing `burst`: whatever lines wait together are one answer, as
when a program reads the port until it is empty; two answers that meet there count as one.
With framing `line`, a robot that offers it is asked by number (numbered.py): no lost answer shifts the others.
"""

from __future__ import annotations

import re
import threading
from time import perf_counter_ns
from typing import NamedTuple

import serial

from looplab.experiments.loop.bridge.request_window import Window, is_offered, parse_numbered
from looplab.experiments.loop.bridge.serial_device import CannotOpenError, open_port

# Longer pauses would make the person who plugs the robot in wait for it.
REOPEN_S = (0.1, 0.2, 0.5)
# A Mega's boot loader takes up to 2 s after the reset that opening the port causes.
READY_TIMEOUT_NS = 3_000_000_000
IDENTITY_TIMEOUT_NS = 500_000_000
# After a missed answer: silence this long means that nothing of it is still on its way.
QUIET_NS = 20_000_000
LONGEST_LINE_BYTES = 256
READ_BYTES = 4096
# What can befall a robot in use; each is counted.
UNPLUGGED, RESET, SILENT, NOISE, SENSOR = "unplugged", "reset", "silent", "noise", "sensor"

_VALUE = re.compile(rb"-?[0-9]{1,4}(\.[0-9]{1,3})?")
# What the lab's firmware says of itself: name and version (firmware/mbot_ranger/protocol.h).
_IDENTITY = re.compile(rb"looplab [!-~]{1,32} [!-~]{1,16}( ready)?")
_PRINTABLE = re.compile(rb"[ -~]{1,80}")
_READY = b" ready"
_ERROR = b"ERR"


class Reply(NamedTuple):
    """What the robot said: `value` is b"" where it cannot be read or the sensor cannot.

    It answers `stands_for` requests (more than one where a burst merged lines, none where nobody asked for it) after
    `skipped` ones whose answers were lost, in the order they were written; `garbled`: something unreadable came.
    """

    value: bytes
    stands_for: int = 1
    skipped: int = 0
    garbled: bool = False


class RobotPort:
    """A non-blocking serial port to one robot; every method returns at once.

    `online` is True once the robot has said that it is ready. `fault` says in words why it is not.
    """

    def __init__(self, url: str, framing: str) -> None:
        self.url = url
        self.framing = framing
        self.online = False
        self.identity = ""
        self.fault = "not opened yet"
        self.faults = dict.fromkeys((UNPLUGGED, RESET, SILENT, NOISE, SENSOR), 0)
        self.last_fault = ""
        self.reopened = -1
        self.must_poll = False
        self.descriptors: tuple[int, ...] = ()
        self.numbered = False
        self._port: serial.SerialBase | None = None
        self._opener: threading.Thread | None = None
        self._fresh: serial.SerialBase | None = None
        self._buffer = b""
        self._window = Window()
        self._garbled = False
        self._failures = 0
        self._restarted = False
        self._deadline_ns = 0
        self._asked_identity = False
        self._stranger = ""
        self._quiet_since_ns = 0

    def write(self, command: bytes) -> bool:
        """Send a command; False where the robot is not there to hear it."""
        if not self._settled() or not self.online:
            return False
        return self._put(self._window.ask() if self.numbered else command)

    def read(self) -> list[Reply]:
        """What has arrived from the robot."""
        data = self._take()
        if not data:
            return []
        if self._quiet_since_ns:
            self._quiet_since_ns = perf_counter_ns()
            self._look_for_reset(data)
            return []
        self._buffer += data
        if not self.online:
            self._greet()
            return []
        if len(self._buffer) > LONGEST_LINE_BYTES and b"\n" not in self._buffer:
            self._buffer = b""
            return self._unreadable()
        return self._burst() if self.framing == "burst" else self._lines()

    def resynchronise(self) -> None:
        """The robot missed its time. Forget half answers: ignore the port until it has been silent for QUIET_NS."""
        self._befell(SILENT, "no answer in time: switched off, hanging, or the request was lost on the wire")
        self._buffer = b""
        self._window.forget()
        self._garbled = False
        self._quiet_since_ns = perf_counter_ns()

    @property
    def garbled(self) -> bool:
        """Something unreadable came since the last good answer."""
        return self._garbled

    def maintain(self) -> None:
        """Open, reopen, greet: called every now and then while nothing is measured or nothing works."""
        now = perf_counter_ns()
        self._settled()
        if self._opener is not None:
            # Looked at only once the helper has ended, so that no port is opened twice.
            if not self._opener.is_alive():
                self._opener = None
                if self._fresh is not None:
                    self._adopt(now)
        elif self._port is None:
            self._opener = threading.Thread(target=self._dial, daemon=True)
            self._opener.start()
        elif not self.online:
            self.read()
            if not self.online and self._port is not None and now > self._deadline_ns:
                self._knock(now)

    def take_restart(self) -> bool:
        """True once after the robot or its port went away: requests that wait for it are lost."""
        restarted, self._restarted = self._restarted, False
        return restarted

    def close(self) -> None:
        """Close the port for good."""
        if self._port is not None:
            self._port.close()

    def _put(self, data: bytes) -> bool:
        try:
            self._port.write(data)  # type: ignore[union-attr]
        except (OSError, serial.SerialException) as error:
            self._close(f"writing failed: {error}")
            return False
        return True

    def _take(self) -> bytes:
        if self._port is None:
            return b""
        data = b""
        try:
            # rfc2217:// gives one byte at a time.
            while len(data) < READ_BYTES and (more := self._port.read(READ_BYTES)):
                data += more
                if not self.must_poll:
                    break
            if not data and self.descriptors:
                # Readable with nothing to read: some drivers say so before they fail.
                data = bytes(self._port.read(1))
        except (OSError, serial.SerialException) as error:
            self._close(f"reading failed: {error}")
        return data

    def _settled(self) -> bool:
        """False while the rest of a missed answer may still be on its way: see `resynchronise`."""
        if self._quiet_since_ns:
            # What has arrived but was not read yet counts as no silence.
            self.read()
            if perf_counter_ns() - self._quiet_since_ns > QUIET_NS:
                self._quiet_since_ns, self._buffer = 0, b""
        return not self._quiet_since_ns

    def _look_for_reset(self, data: bytes) -> None:
        """In what is ignored: a robot that says it is ready has nothing of an old answer on its way."""
        self._buffer = (self._buffer + data)[-LONGEST_LINE_BYTES:]
        *lines, rest = self._buffer.split(b"\n")
        if any(self._is_greeting(line) for line in lines):
            self._quiet_since_ns, self._buffer = 0, rest

    def _lines(self) -> list[Reply]:
        *lines, self._buffer = self._buffer.split(b"\n")
        read = self._numbered_line if self.numbered else self._plain_line
        return [reply for line in lines if not self._is_greeting(line) for reply in read(line)]

    def _plain_line(self, line: bytes) -> list[Reply]:
        if line.startswith(_ERROR):
            return [self._no_reading()]
        value = self._value(line)
        return [Reply(value)] if value else self._unreadable()

    def _numbered_line(self, line: bytes) -> list[Reply]:
        answer = parse_numbered(line)
        if answer is None:
            return self._unreadable()
        found = self._window.answered(answer.number)
        if found is None:
            return [Reply(answer.value, stands_for=0)]
        if not answer.value:
            self._no_reading()
        skipped, to_send = found
        if to_send:
            self._put(to_send)
        garbled, self._garbled = self._garbled, False
        return [Reply(answer.value, skipped=skipped, garbled=garbled)]

    def _unreadable(self) -> list[Reply]:
        """If it was an answer, the order says whose; where requests are numbered, the next answer will."""
        self._garbled = True
        self._befell(NOISE, "something that is no answer came: noise on the wire, or half a line")
        return [] if self.numbered else [Reply(b"")]

    def _no_reading(self) -> Reply:
        self._befell(SENSOR, "the robot cannot read its sensor")
        return Reply(b"")

    def _burst(self) -> list[Reply]:
        if not self._buffer.endswith(b"\n"):
            return []
        burst, self._buffer = self._buffer, b""
        lines = [line for line in burst.split(b"\n")[:-1] if not self._is_greeting(line)]
        if not lines:
            return []
        value = self._value(lines[0])
        if lines[0].startswith(_ERROR):
            self._no_reading()
        elif not value:
            self._unreadable()
        return [Reply(value, len(lines))]

    def _value(self, line: bytes) -> bytes:
        text = line.strip()
        return text if _VALUE.fullmatch(text) else b""

    def _is_greeting(self, line: bytes) -> bool:
        """A ready line in the middle of a run: the robot was reset, whatever it was asked is lost."""
        if not line.rstrip().endswith(_READY):
            return False
        self._restarted = True
        self._window.forget()
        self._befell(RESET, "the robot was reset: its button, its supply, or its watchdog")
        return True

    def _befell(self, kind: str, words: str) -> None:
        self.faults[kind] += 1
        self.last_fault = words

    def _greet(self) -> None:
        *lines, self._buffer = self._buffer[-LONGEST_LINE_BYTES:].split(b"\n")
        for line in lines:
            text = line.strip()
            greeted = text.endswith(_READY)
            if not _IDENTITY.fullmatch(text):
                self._note_stranger(text)
            elif greeted or self._asked_identity:
                self.identity = text.removesuffix(_READY).decode()
                self.numbered = self.framing == "line" and is_offered(self.identity)
                self.online, self.fault, self._buffer = True, "", b""
                self._failures = 0
                self._quiet_since_ns = 0 if greeted else perf_counter_ns()
                return

    def _note_stranger(self, text: bytes) -> None:
        """What is no identity: of half a ready line, or of a device that is no robot of the lab's."""
        if text.endswith(_READY) and not self._asked_identity:
            # Its beginning was lost: who it is can be asked at once.
            self._deadline_ns = 0
        if text:
            self._stranger = f"says {text.decode()!r}" if _PRINTABLE.fullmatch(text) else "says nothing readable"

    def _knock(self, now: int) -> None:
        """No ready line came: a board that was not reset by opening still answers `?`."""
        if self._asked_identity:
            stranger = self._stranger or ("says nothing readable" if self._buffer else "")
            who = f"what is there {stranger}" if stranger else "no robot answers on it"
            self._close(f"the port is open but {who} (is the lab's firmware flashed?)")
            return
        self._asked_identity = True
        self._deadline_ns = now + IDENTITY_TIMEOUT_NS
        self._buffer = b""
        self._put(b"?")

    def _dial(self) -> None:
        """Open the port; runs in a helper thread because opening may block, touches `_fresh` alone."""
        wait_s = REOPEN_S[min(self._failures, len(REOPEN_S)) - 1] if self._failures else 0.0
        threading.Event().wait(wait_s)
        try:
            self._fresh = open_port(self.url)
        except CannotOpenError as error:
            self._failures += 1
            self.fault = f"cannot open {error}"

    def _adopt(self, now: int) -> None:
        self._port, self._fresh = self._fresh, None
        self._buffer, self._asked_identity, self._quiet_since_ns = b"", False, 0
        self._stranger = ""
        self._deadline_ns = now + READY_TIMEOUT_NS
        self.reopened += 1
        self.fault = "waiting for the robot's ready line"
        try:
            self.descriptors, self.must_poll = (self._port.fileno(),), False  # type: ignore[union-attr]
        except (AttributeError, OSError, serial.SerialException):
            self.descriptors, self.must_poll = (), True

    def _close(self, why: str) -> None:
        port, self._port = self._port, None
        self.descriptors, self.must_poll = (), False
        if self.online:
            self._befell(UNPLUGGED, "cable out, or the port gone")
        self.online, self._restarted = False, True
        self._quiet_since_ns = 0
        self._window.forget()
        self._garbled = False
        self.fault = why
        self._failures += 1
        if port is not None:
            # In a helper thread: pyserial sleeps after closing a network port, up to 7 s for rfc2217://.
            threading.Thread(target=port.close, daemon=True).start()
