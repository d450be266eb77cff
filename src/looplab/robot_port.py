"""The robot's serial port: opened by name or URL, reopened with back-off, cut into answers.

Framing `line`: each line is one answer. Framing `burst`: whatever lines wait together are one answer, as
when a program reads the port until it is empty; two answers that meet there count as one.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from time import perf_counter_ns

import serial

BAUD_RATE = 57600
REOPEN_S = (0.2, 0.5, 1.0, 2.0)
# A Mega's boot loader takes up to 2 s after the reset that opening the port causes.
READY_TIMEOUT_NS = 3_000_000_000
IDENTITY_TIMEOUT_NS = 500_000_000
# After a missed answer: silence this long means that nothing of it is still on its way.
QUIET_NS = 20_000_000
LONGEST_LINE_BYTES = 256

_VALUE = re.compile(rb"-?[0-9]{1,4}(\.[0-9]{1,3})?")
_IDENTITY = re.compile(rb"[ -~]{3,80}")


class RobotPort:
    """A non-blocking serial port to one robot; every method returns at once.

    `online` is True once the robot has said that it is ready. `fault` says in words why it is not.
    """

    def __init__(self, url: str, framing: str, open_port: Callable[..., serial.SerialBase] | None = None) -> None:
        self.url = url
        self.framing = framing
        self.online = False
        self.identity = ""
        self.fault = "not opened yet"
        self.reopened = -1
        self.must_poll = False
        self.descriptors: tuple[int, ...] = ()
        self._open_port = open_port or serial.serial_for_url
        self._port: serial.SerialBase | None = None
        self._opener: threading.Thread | None = None
        self._fresh: serial.SerialBase | None = None
        self._buffer = b""
        self._failures = 0
        self._restarted = False
        self._deadline_ns = 0
        self._asked_identity = False
        self._quiet_since_ns = 0

    def write(self, command: bytes) -> bool:
        """Send a command; False where the robot is not there to hear it."""
        if not self._settled() or not self.online:
            return False
        try:
            self._port.write(command)  # type: ignore[union-attr]
        except (OSError, serial.SerialException) as error:
            self._close(f"writing failed: {error}")
            return False
        return True

    def read(self) -> list[tuple[bytes, int]]:
        """The answers that have arrived: (value, requests it stands for); b"" for one that is garbled."""
        if self._port is None:
            return []
        try:
            data = self._port.read(4096)
            if not data and self.descriptors:
                # Readable with nothing to read: some drivers say so before they fail.
                data = self._port.read(1)
        except (OSError, serial.SerialException) as error:
            self._close(f"reading failed: {error}")
            return []
        if not data:
            return []
        if self._quiet_since_ns:
            self._quiet_since_ns = perf_counter_ns()
            return []
        self._buffer += data
        if len(self._buffer) > LONGEST_LINE_BYTES and b"\n" not in self._buffer:
            self._buffer = b""
            return [(b"", 1)] if self.online else []
        if not self.online:
            self._greet()
            return []
        return self._burst() if self.framing == "burst" else self._lines()

    def resynchronise(self) -> None:
        """Forget half answers: ignore the port until it has been silent for QUIET_NS."""
        self._buffer = b""
        self._quiet_since_ns = perf_counter_ns()

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

    def _settled(self) -> bool:
        """False while the rest of a missed answer may still be on its way: see `resynchronise`."""
        if self._quiet_since_ns:
            # What has arrived but was not read yet counts as no silence.
            self.read()
            if perf_counter_ns() - self._quiet_since_ns > QUIET_NS:
                self._quiet_since_ns = 0
        return not self._quiet_since_ns

    def _lines(self) -> list[tuple[bytes, int]]:
        *lines, self._buffer = self._buffer.split(b"\n")
        return [(self._value(line), 1) for line in lines if not self._is_greeting(line)]

    def _burst(self) -> list[tuple[bytes, int]]:
        if not self._buffer.endswith(b"\n"):
            return []
        burst, self._buffer = self._buffer, b""
        lines = [line for line in burst.split(b"\n")[:-1] if not self._is_greeting(line)]
        return [(self._value(lines[0]), len(lines))] if lines else []

    def _value(self, line: bytes) -> bytes:
        text = line.strip()
        return text if _VALUE.fullmatch(text) else b""

    def _is_greeting(self, line: bytes) -> bool:
        """A ready line in the middle of a run: the robot was reset, whatever it was asked is lost."""
        if not line.rstrip().endswith(b" ready"):
            return False
        self._restarted = True
        return True

    def _greet(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            text = line.strip()
            greeted = text.endswith(b" ready")
            if _IDENTITY.fullmatch(text) and (greeted or self._asked_identity):
                self.identity = text.removesuffix(b" ready").decode()
                self.online, self.fault, self._buffer = True, "", b""
                self._failures = 0
                self._quiet_since_ns = 0 if greeted else perf_counter_ns()
                return

    def _knock(self, now: int) -> None:
        """No ready line came: a board that was not reset by opening still answers `?`."""
        if self._asked_identity:
            self._close("the port is open but no robot answers on it (is the firmware flashed?)")
            return
        self._asked_identity = True
        self._deadline_ns = now + IDENTITY_TIMEOUT_NS
        self._buffer = b""
        try:
            self._port.write(b"?")  # type: ignore[union-attr]
        except (OSError, serial.SerialException) as error:
            self._close(f"writing failed: {error}")

    def _dial(self) -> None:
        """Open the port; runs in a helper thread because opening may block, touches `_fresh` alone."""
        wait_s = REOPEN_S[min(self._failures, len(REOPEN_S)) - 1] if self._failures else 0.0
        threading.Event().wait(wait_s)
        try:
            self._fresh = self._open_port(self.url, baudrate=BAUD_RATE, timeout=0, write_timeout=1)
        except (OSError, ValueError, serial.SerialException) as error:
            self._failures += 1
            self.fault = f"cannot open {self.url}: {error}"

    def _adopt(self, now: int) -> None:
        self._port, self._fresh = self._fresh, None
        self._buffer, self._asked_identity, self._quiet_since_ns = b"", False, 0
        self._deadline_ns = now + READY_TIMEOUT_NS
        self.reopened += 1
        self.fault = "waiting for the robot's ready line"
        try:
            self.descriptors, self.must_poll = (self._port.fileno(),), False  # type: ignore[union-attr]
        except (AttributeError, OSError, serial.SerialException):
            self.descriptors, self.must_poll = (), True
        if self.url.startswith("socket://"):
            # The TCP connection stands for a cable: it must not hold a second request back (Nagle).
            with socket.socket(fileno=os.dup(self._port.fileno())) as cable:  # type: ignore[union-attr]
                cable.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _close(self, why: str) -> None:
        port, self._port = self._port, None
        self.descriptors, self.must_poll = (), False
        self.online, self._restarted = False, True
        self._quiet_since_ns = 0
        self.fault = why
        self._failures += 1
        if port is not None:
            port.close()
