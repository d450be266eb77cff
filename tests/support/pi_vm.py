"""A whole virtual Pi: Debian's kernel, systemd and udev under QEMU, the robot on its USB, its network card on a switch.

QEMU's `usb-serial` is an FTDI FT232R (0403:6001). Its bytes are those of the lab's firmware in its simulator; its DTR
line, which QEMU cannot pass to a pseudo-terminal, is read from QEMU's trace and resets the board, as on the real one.
What this cannot stand for: an ARM processor and its speed, an SD card, a real USB bus, a radio link.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.board import Board
from support.vm_disk import Disk
from support.whole_vm import BOOT_LIMIT_S, Machine
from support.wire import TapWire

# ftdi_sio's request of the modem lines: bit 8 says that DTR is meant, bit 0 which way it goes.
MODEM_LINES = re.compile(r"usb_serial_handle_control .* control 0x4001, value 0x([0-9a-f]+)")
DTR_MEANT, DTR_UP = 0x100, 0x1
DEVICE_RESET = "usb_serial_reset"


class Pi(Machine):
    """The machine with its robot plugged in."""

    def __init__(self, wire: TapWire, folder: Path, disk: Disk, board: Board) -> None:
        devices = [
            *("-device", "qemu-xhci,id=usb", "-chardev", f"serial,id=robot,path={board.device}"),
            *("-device", "usb-serial,bus=usb.0,chardev=robot,id=robot"),
            *("-trace", "usb_serial_handle_control", "-trace", DEVICE_RESET),
        ]
        super().__init__(wire, folder, disk, devices)
        self.board = board
        self._dtr_up = False

    def reboot(self) -> int:
        """Type `reboot`; monotonic ns of when the machine has gone down and begins again."""
        # The connection may end before the command does.
        self.run("sudo systemctl reboot", check=False)
        event = self.qmp.wait_for("RESET", BOOT_LIMIT_S)["timestamp"]
        at_ns = event["seconds"] * 10**9 + event["microseconds"] * 1000
        return int(at_ns) - time.time_ns() + time.perf_counter_ns()

    def compose(self, words: str, *, check: bool = True) -> str:
        return self.run(f"sudo docker compose --ansi never -f rpi/compose.yaml {words}", check=check, timeout_s=120)

    def log(self) -> str:
        return self.compose("logs --no-log-prefix bridge")

    @contextmanager
    def usb_cable_out(self) -> Iterator[None]:
        """The adapter is off the bus, and on it again afterwards."""
        self.qmp.ask("device_del", id="robot")
        self.qmp.wait_for("DEVICE_DELETED")
        try:
            yield
        finally:
            self.qmp.ask("device_add", driver="usb-serial", bus="usb.0", chardev="robot", id="robot")

    def hold(self, device: str, seconds: int) -> None:
        """Another program has `device` open for that long: its number is not free when the device goes."""
        script = f"exec 3<{device}; touch /run/held; exec sleep {seconds}"
        wait = "until [ -e /run/held ]; do sleep 0.1; done; rm /run/held"
        self.run(f"sudo sh -c {shlex.quote(f'({script}) >/dev/null 2>&1 & {wait}')}")

    def _hear(self, line: str) -> None:
        """Pass the adapter's DTR line to the board."""
        if DEVICE_RESET in line:
            self._dtr_up = False
        elif lines := MODEM_LINES.search(line):
            self._move_dtr(int(lines[1], 16))

    def _move_dtr(self, value: int) -> None:
        if value & DTR_MEANT:
            up = bool(value & DTR_UP)
            if up and not self._dtr_up:
                self.board.reset()
            self._dtr_up = up
