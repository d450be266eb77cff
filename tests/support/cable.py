"""A USB cable for the tests: a pseudo-terminal of its own that passes bytes to the robot's, or spoils them."""

import contextlib
import os
import pty
import random
import select
import threading
import tty
from pathlib import Path

import serial

POLL_S = 0.02
LINE_BYTES = 12


class Cable:
    """Offers the serial port `robot_end` as `name`, under a number that no other cable has at the time.

    Opening `name` opens the robot's port, which resets the robot as DTR does. `noise` is the share of bytes
    that are lost, changed or doubled, each as often, in both directions, at most one in a line.
    """

    def __init__(self, robot_end: Path, name: Path, noise: float = 0.0) -> None:
        self.noise = noise
        self.spoilt = 0
        self._robot_end = robot_end
        self._since_spoilt = 0
        self._random = random.Random(57600)
        self._ours, theirs = pty.openpty()
        tty.setraw(theirs)
        self.device = os.ttyname(theirs)
        os.close(theirs)
        self._name = name
        name.unlink(missing_ok=True)
        name.symlink_to(self.device)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def pull(self) -> None:
        """Out of the socket: the device is gone, and its name."""
        self._stop.set()
        self._thread.join()
        self._name.unlink(missing_ok=True)

    def _serve(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                if self._is_open():
                    with serial.Serial(str(self._robot_end), timeout=0) as robot, contextlib.suppress(OSError):
                        self._pass_on(robot.fileno())
        finally:
            os.close(self._ours)

    def _is_open(self) -> bool:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        return not any(events & select.POLLHUP for _, events in poll.poll(0))

    def _pass_on(self, robot: int) -> None:
        while not self._stop.is_set() and self._is_open():
            readable = select.select([self._ours, robot], [], [], POLL_S)[0]
            for source, sink in ((self._ours, robot), (robot, self._ours)):
                if source in readable:
                    os.write(sink, self._spoil(os.read(source, 4096)))

    def _spoil(self, data: bytes) -> bytes:
        if not self.noise:
            return data
        out = bytearray()
        for byte in data:
            self._since_spoilt += 1
            # Two in one line could make another good one: one in 23 check letters is right by chance.
            spoils = self._since_spoilt > LINE_BYTES and self._random.random() < self.noise
            kind = self._random.randrange(3) if spoils else 3
            if spoils:
                self.spoilt += 1
                self._since_spoilt = 0
            out += {0: b"", 1: bytes([self._random.randrange(256)]), 2: bytes([byte, byte])}.get(kind, bytes([byte]))
        return bytes(out)
