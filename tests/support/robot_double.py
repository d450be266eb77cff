"""A robot that does what the test wants, on a TCP port."""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from support.parts import HOST
from support.waiting import LIMIT_S

BOOT_S = 0.15


def answer_line(asked: int, centi_celsius: int) -> bytes:
    """What the firmware answers to T, or to a letter."""
    if asked == ord("T"):
        return b"%.2f\r\n" % (centi_celsius / 100)
    line = b"%c%d" % (asked, centi_celsius)
    return line + b"%c\n" % (ord("A") + sum(line) % 23)


class RobotDouble:
    """Speaks the robot's protocol and does what the test wants.

    `answer(number, request)` gives the bytes to write for the number-th of `requests`, T and letters, since the double
    was made (from 0).
    """

    GREETING = b"looplab double 0.3 ready\r\n"

    def __init__(self) -> None:
        self.requests = bytearray()
        self.greets = True
        self.greeting = self.GREETING
        self.answer: Callable[[int, int], bytes] = lambda _number, request: answer_line(request, 2550)
        self._listener = socket.create_server((HOST, 0))
        self.url = f"socket://{HOST}:{self._listener.getsockname()[1]}"
        self._channel: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def asked(self) -> int:
        return len(self.requests)

    def unplug(self) -> None:
        """Gone, as when the cable is pulled."""
        self._stop.set()
        self._thread.join(LIMIT_S)

    def say(self, data: bytes) -> None:
        """Something nobody asked for."""
        assert self._channel is not None
        os.write(self._channel, data)

    def _serve(self) -> None:
        with self._listener:
            while not self._stop.is_set():
                if not select.select([self._listener], [], [], 0.02)[0]:
                    continue
                connection, _ = self._listener.accept()
                with connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._talk(connection.fileno())

    def _talk(self, channel: int) -> None:
        self._channel = channel
        # As a boot loader does; pyserial empties the port's input when it has opened it.
        time.sleep(BOOT_S)
        if self.greets:
            os.write(channel, self.greeting)
        # An OSError is the other end hanging up.
        with contextlib.suppress(OSError):
            while not self._stop.is_set():
                if not select.select([channel], [], [], 0.02)[0]:
                    continue
                data = os.read(channel, 100)
                if not data:
                    break
                for byte in data:
                    self._hear(channel, byte)
        self._channel = None

    def _hear(self, channel: int, byte: int) -> None:
        if byte == ord("?"):
            os.write(channel, self.greeting.replace(b" ready", b""))
        elif byte == ord("T") or chr(byte).islower():
            self.requests.append(byte)
            if answer := self.answer(self.asked - 1, byte):
                os.write(channel, answer)
