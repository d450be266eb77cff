"""A whole virtual machine under QEMU: its own kernel, systemd and udev, its network card on a switch, ssh into it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from support.vm_disk import Disk
from support.waiting import until
from support.wire import TapWire, call

ANSWER_LIMIT_S = 30.0


class Qmp:
    """A connection to the socket at `path`, where QEMU already listens."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_LIMIT_S)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rw")
        self._events: list[dict[str, Any]] = []
        assert "QMP" in self._read()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """What QEMU returns; an error fails the test with QEMU's words."""
        words = {"execute": command, "arguments": {name.replace("_", "-"): arguments[name] for name in arguments}}
        self._stream.write(json.dumps(words))
        self._stream.flush()
        while "event" in (answer := self._read()):
            self._events.append(answer)
        assert "return" in answer, (command, arguments, answer)
        return answer["return"]

    def wait_for(self, event: str, timeout_s: float = ANSWER_LIMIT_S) -> dict[str, Any]:
        """The next one of that name, which may have come before."""
        self._socket.settimeout(timeout_s)
        try:
            while not (found := [each for each in self._events if each["event"] == event]):
                self._events.append(self._read())
        finally:
            self._socket.settimeout(ANSWER_LIMIT_S)
        self._events.remove(found[0])
        return found[0]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        assert line, "QEMU has ended"
        message: dict[str, Any] = json.loads(line)
        return message


PROCESSORS = 2
# /dev/kvm alone says nothing: some hypervisors have one that interprets a guest's kernel, more slowly than QEMU does.
HARDWARE = bool(re.search(r"^flags\s*:.* (vmx|svm) ", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
IN_HARDWARE = HARDWARE and os.access("/dev/kvm", os.R_OK | os.W_OK)
# Without cx16 Linux takes memory by another way than the one in which an emulated Ubuntu's kernel 6.8 panicked.
EMULATED = ("-cpu", "Westmere,-cx16")
ACCELERATOR = ["kvm", "-cpu", "host"] if IN_HARDWARE else ["tcg,thread=multi", *EMULATED]
# How many times longer everything may take where the processor is emulated, on a machine that others use, too.
PATIENCE = 1 if IN_HARDWARE else 15
BOOT_LIMIT_S = 60.0 * PATIENCE
# An emulated processor may trip over code that Linux patches while it boots: after a panic it boots again.
KERNEL = "root=/dev/vda rw console=ttyS0 quiet panic=5"
NETWORK = """[connection]
id=lan
type=ethernet
[ipv4]
method=manual
address1={there}/24,{here}
[ipv6]
method=disabled
"""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Machine:
    """`disk` may be written to, all other files are in `folder`; `devices` are QEMU's words for what is plugged in."""

    def __init__(
        self, wire: TapWire, folder: Path, disk: Disk, devices: Sequence[str] = (), memory_mb: int = 1024
    ) -> None:
        self.wire, self._folder, self._disk = wire, folder, disk
        self._devices, self._memory_mb = devices, memory_mb
        self._key = folder / "key"
        self._console = folder / "console.log"
        self._process: subprocess.Popen[str] | None = None
        self._qmp: Qmp | None = None

    def _hear(self, line: str) -> None:
        """A line of QEMU's trace."""

    def __enter__(self) -> Self:
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._key))
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
        socket = self._folder / "sock"
        socket.unlink(missing_ok=True)
        started_ns = time.perf_counter_ns()
        self._process = subprocess.Popen(
            self.wire.command(*self._words(socket)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        threading.Thread(target=self._follow, args=(self._process.stderr,), daemon=True).start()
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

    def wait_until_up(self) -> None:
        """Until it takes commands."""

        def answers() -> bool:
            self._check_alive()
            return self._ssh("true", 15.0 * PATIENCE).returncode == 0

        until(answers, f"the machine (its console: {self._console})", BOOT_LIMIT_S)

    def run(self, command: str, *, check: bool = True, timeout_s: float = 60.0) -> str:
        """What a shell of the disk's user prints, both streams."""
        done = self._ssh(command, timeout_s * PATIENCE)
        assert done.returncode == 0 or not check, f"{command} gave {done.returncode}: {done.stdout}"
        return done.stdout

    def bring(self, *paths: Path) -> None:
        """Copy files and folders to the user's home."""
        words = ["scp", "-q", "-r", *self._options(), *map(str, paths), f"{self._disk.user}@{self.wire.there}:"]
        call(*words, timeout_s=60.0 * PATIENCE)

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

    def _words(self, socket: Path) -> list[str]:
        disk = f"file={self._disk.root},format=raw,if=virtio,cache=unsafe"
        return [
            *("qemu-system-x86_64", "-machine", "q35", "-accel", *ACCELERATOR),
            *("-m", str(self._memory_mb), "-smp", str(PROCESSORS), "-nodefaults", "-display", "none"),
            *("-kernel", str(self._disk.kernel), "-initrd", str(self._disk.initrd)),
            # Debian 12's systemd reads no binary from the kernel's words, and Ubuntu's kernel has no fw_cfg.
            *("-append", f"{KERNEL} systemd.set_credential_binary=tmpfiles.extra:{_base64(self._credential())}"),
            *("-fw_cfg", f"name=opt/io.systemd.credentials/tmpfiles.extra,string={self._credential()}"),
            *("-serial", f"file:{self._console}", "-drive", disk),
            *("-netdev", "tap,id=lan,ifname=pi,script=no,downscript=no"),
            *("-device", "virtio-net-pci,netdev=lan,id=card", "-device", "virtio-rng-pci"),
            *self._devices,
            *("-qmp", f"unix:{socket},server=on,wait=off"),
        ]

    def _credential(self) -> str:
        """What is this machine's own: systemd-tmpfiles writes it at each start, so that the disk may be anybody's."""
        user = self._disk.user
        home, system = f"/home/{user}", "/etc/NetworkManager/system-connections"
        files = {
            f"{home}/.ssh/authorized_keys": (user, self._key.with_suffix(".pub").read_text()),
            f"{system}/lan.nmconnection": ("root", NETWORK.format(there=self.wire.there, here=self.wire.here)),
        }
        lines = f"d {home}/.ssh 0700 {user} {user}\n"
        for name, (owner, text) in files.items():
            lines += f"f+~ {name} 0600 {owner} {owner} - {_base64(text)}\n"
        return lines

    def _follow(self, trace: IO[str]) -> None:
        """All that QEMU says is kept in a file."""
        with (self._folder / "qemu.log").open("a") as log, contextlib.suppress(ValueError):
            for line in trace:
                log.write(f"{time.perf_counter_ns()} {line}")
                log.flush()
                self._hear(line)

    def _options(self) -> list[str]:
        settings = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        return ["-i", str(self._key), *(word for each in [*settings, "ConnectTimeout=60"] for word in ("-o", each))]

    def _ssh(self, command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["ssh", *self._options(), f"{self._disk.user}@{self.wire.there}", f"sh -c {shlex.quote(command)}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
