"""A whole virtual Pi: Debian's kernel, systemd and udev under QEMU, the robot on its USB, its network card on a switch.

QEMU's `usb-serial` is an FTDI FT232R (0403:6001). Its bytes are those of the lab's firmware in its simulator; its DTR
line, which QEMU cannot pass to a pseudo-terminal, is read from QEMU's trace and resets the board, as on the real one.
What this cannot stand for: an ARM processor and its speed, an SD card, a real USB bus, a radio link.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from support.board import Board
from support.containers import stamp_ns
from support.pi_disk import USER, Disk
from support.qmp import Qmp
from support.waiting import until
from support.wire import TapWire, call

MEMORY_MB, PROCESSORS = 1024, 2
# /dev/kvm alone says nothing: some hypervisors have one that interprets a guest's kernel, more slowly than QEMU does.
HARDWARE = bool(re.search(r"^flags\s*:.* (vmx|svm) ", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
IN_HARDWARE = HARDWARE and os.access("/dev/kvm", os.R_OK | os.W_OK)
ACCELERATOR = ["kvm", "-cpu", "host"] if IN_HARDWARE else ["tcg,thread=multi", "-cpu", "Westmere"]
# How many times longer everything may take where the processor is emulated, on a machine that others use, too.
PATIENCE = 1 if IN_HARDWARE else 15
BOOT_LIMIT_S = 60.0 * PATIENCE
CREDENTIAL = "opt/io.systemd.credentials/tmpfiles.extra"
NETWORK = """[connection]
id=lan
type=ethernet
[ipv4]
method=manual
address1={there}/24,{here}
[ipv6]
method=disabled
"""
# ftdi_sio's request of the modem lines: bit 8 says that DTR is meant, bit 0 which way it goes.
MODEM_LINES = re.compile(r"usb_serial_handle_control .* control 0x4001, value 0x([0-9a-f]+)")
DTR_MEANT, DTR_UP = 0x100, 0x1
DEVICE_RESET = "usb_serial_reset"
# Lines of the journal that tell how far a start has come.
MARKS = {
    "now attached to ttyUSB": "the kernel has the robot's adapter",
    "Activation: successful, device activated": "the network is up",
    "Started docker.service": "the engine answers",
    "Starting docker.service": "the engine is started",
    "Starting containerd.service": "containerd is started",
}


class Clocks(NamedTuple):
    """Where on this machine's monotonic clock (ns) the machine's two clocks, wall and kernel, had their zero."""

    wall_ns: int
    kernel_ns: int


class Machine:
    """The machine with its robot plugged in; `disk` may be written to, all other files are in `folder`."""

    def __init__(self, wire: TapWire, folder: Path, disk: Disk, board: Board) -> None:
        self._wire, self._folder, self._disk, self.board = wire, folder, disk, board
        self._key = folder / "key"
        self._console = folder / "console.log"
        self._process: subprocess.Popen[str] | None = None
        self._qmp: Qmp | None = None
        self._dtr_up = False

    def __enter__(self) -> Machine:
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._key))
        self._write_credential()
        self.plug_in()
        try:
            self.wait_until_up()
        except BaseException:
            self.pull_plug()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self.pull_plug()

    def plug_in(self) -> int:
        """Switch it on; monotonic ns of it."""
        socket = self._folder / "qmp.sock"
        socket.unlink(missing_ok=True)
        started_ns = time.perf_counter_ns()
        self._process = subprocess.Popen(
            self._wire.command(*self._words(socket)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        threading.Thread(target=self._follow_trace, args=(self._process.stderr,), daemon=True).start()
        self._qmp = until(lambda: self._connection(socket), "QEMU's socket", 30)
        return started_ns

    def pull_plug(self) -> None:
        """The whole machine is gone in one moment."""
        assert self._process is not None
        if self._qmp is not None:
            self._qmp.close()
        self._process.kill()
        self._process.wait(30)
        self._process, self._qmp = None, None

    def reboot(self) -> int:
        """Type `reboot`; monotonic ns of when the machine has gone down and begins again."""
        # The connection may end before the command does.
        self.run("sudo systemctl reboot", check=False)
        event = self.qmp.wait_for("RESET", BOOT_LIMIT_S)["timestamp"]
        at_ns = event["seconds"] * 10**9 + event["microseconds"] * 1000
        return int(at_ns) - time.time_ns() + time.perf_counter_ns()

    def wait_until_up(self) -> None:
        """Until it takes commands."""

        def answers() -> bool:
            self._check_alive()
            return self._ssh("true", 15.0 * PATIENCE).returncode == 0

        until(answers, f"the machine (its console: {self._console})", BOOT_LIMIT_S)

    def run(self, command: str, *, check: bool = True, timeout_s: float = 60.0) -> str:
        """What a shell of the user `pi` prints, both streams."""
        done = self._ssh(command, timeout_s * PATIENCE)
        assert done.returncode == 0 or not check, f"{command} gave {done.returncode}: {done.stdout}"
        return done.stdout

    def bring(self, *paths: Path) -> None:
        """Copy files and folders to the user's home."""
        words = ["scp", "-q", "-r", *self._options(), *map(str, paths), f"{USER}@{self._wire.there}:"]
        call(*words, timeout_s=60.0 * PATIENCE)

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

    @contextmanager
    def network_cut(self) -> Iterator[None]:
        """The network cable is out: the machine's card has no carrier, and nothing passes the switch."""
        with self._wire.cut():
            self.qmp.ask("set_link", name="card", up=False)
            try:
                yield
            finally:
                self.qmp.ask("set_link", name="card", up=True)

    def start_up(self) -> list[tuple[int, str]]:
        """How far the last start had come at which monotonic ns of this machine, in order."""
        clocks = self._clocks()
        found = [(clocks.kernel_ns, "the kernel runs")]
        systemd = self.run("systemctl show --property=UserspaceTimestampMonotonic --value")
        found.append((clocks.kernel_ns + int(systemd) * 1000, "systemd runs"))
        for line in self.run("sudo journalctl --boot --output=short-monotonic --no-pager").splitlines():
            stamp = re.match(r"\[ *([0-9.]+)\]", line)
            for mark, meaning in MARKS.items():
                if stamp and mark in line and meaning not in [what for _, what in found]:
                    found.append((clocks.kernel_ns + int(float(stamp[1]) * 1e9), meaning))
        bridge = self.compose("ps --quiet bridge").strip()
        started = self.run(f"sudo docker inspect --format '{{{{.State.StartedAt}}}}' {bridge}").strip()
        found.append((clocks.wall_ns + stamp_ns(started), "the bridge's container is started"))
        for line in self.run(f"sudo docker logs --timestamps {bridge} 2>&1").splitlines():
            stamp_text, _, words = line.partition(" ")
            found.append((clocks.wall_ns + stamp_ns(stamp_text), words))
        return sorted(found)

    @property
    def qmp(self) -> Qmp:
        assert self._qmp is not None, "the machine is off"
        return self._qmp

    def _connection(self, socket: Path) -> Qmp | None:
        self._check_alive()
        try:
            return Qmp(socket)
        except OSError:
            return None

    def _check_alive(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"QEMU has ended, see {self._folder / 'qemu.log'}"

    def _clocks(self) -> Clocks:
        """By the fastest of some questions over a connection that stands."""
        script = "while read -r _; do echo $(date +%s%N) $(cut -d ' ' -f 1 /proc/uptime); done"
        words = [*self._ssh_words(), script]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as there:
            assert there.stdin is not None
            assert there.stdout is not None
            answers = []
            for _ in range(10):
                asked_ns = time.perf_counter_ns()
                there.stdin.write("\n")
                there.stdin.flush()
                wall, uptime = there.stdout.readline().split()
                took_ns = time.perf_counter_ns() - asked_ns
                now_ns = asked_ns + took_ns // 2
                answers.append((took_ns, Clocks(now_ns - int(wall), now_ns - int(float(uptime) * 1e9))))
            there.stdin.close()
        return min(answers)[1]

    def _words(self, socket: Path) -> list[str]:
        disk = f"file={self._disk.root},format=raw,if=virtio"
        return [
            *("qemu-system-x86_64", "-machine", "q35", "-accel", *ACCELERATOR),
            *("-m", str(MEMORY_MB), "-smp", str(PROCESSORS), "-nodefaults", "-display", "none"),
            *("-kernel", str(self._disk.kernel), "-initrd", str(self._disk.initrd)),
            *("-append", "root=/dev/vda rw console=ttyS0 quiet", "-serial", f"file:{self._console}"),
            *("-drive", disk, "-fw_cfg", f"name={CREDENTIAL},file={self._folder / 'tmpfiles.extra'}"),
            *("-netdev", "tap,id=lan,ifname=pi,script=no,downscript=no"),
            *("-device", "virtio-net-pci,netdev=lan,id=card", "-device", "virtio-rng-pci"),
            *("-device", "qemu-xhci,id=usb", "-chardev", f"serial,id=robot,path={self.board.device}"),
            *("-device", "usb-serial,bus=usb.0,chardev=robot,id=robot"),
            *("-trace", "usb_serial_handle_control", "-trace", DEVICE_RESET),
            *("-qmp", f"unix:{socket},server=on,wait=off"),
        ]

    def _write_credential(self) -> None:
        """What is this machine's own: systemd-tmpfiles writes it at each start, so that the disk may be anybody's."""
        home, system = f"/home/{USER}", "/etc/NetworkManager/system-connections"
        files = {
            f"{home}/.ssh/authorized_keys": (USER, self._key.with_suffix(".pub").read_text()),
            f"{system}/lan.nmconnection": (
                "root",
                NETWORK.format(there=self._wire.there, here=self._wire.here),
            ),
        }
        lines = [f"d {home}/.ssh 0700 {USER} {USER}"]
        for name, (owner, text) in files.items():
            lines.append(f"f+~ {name} 0600 {owner} {owner} - {base64.b64encode(text.encode()).decode()}")
        (self._folder / "tmpfiles.extra").write_text("\n".join([*lines, ""]))

    def _follow_trace(self, trace: IO[str]) -> None:
        """Pass the adapter's DTR line to the board; all that QEMU says is kept in a file."""
        with (self._folder / "qemu.log").open("a") as log, contextlib.suppress(ValueError):
            for line in trace:
                log.write(f"{time.perf_counter_ns()} {line}")
                log.flush()
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

    def _options(self) -> list[str]:
        settings = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        return ["-i", str(self._key), *(word for each in [*settings, "ConnectTimeout=60"] for word in ("-o", each))]

    def _ssh_words(self) -> list[str]:
        return ["ssh", *self._options(), f"{USER}@{self._wire.there}"]

    def _ssh(self, command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._ssh_words(), f"sh -c {shlex.quote(command)}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
