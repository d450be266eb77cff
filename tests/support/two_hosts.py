"""A second host on this machine: a network namespace behind a switch, with an engine and a robot of its own.

The namespace `pi` holds a Docker engine (own data, own socket) that runs rpi/compose.yaml as it is, and the real
firmware in its simulator on a real pseudo-terminal. A cable can be pulled at the switch: no side is told more than
that its carrier went. What this cannot stand for: another processor, another clock, an SD card, a radio link.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.board import Board, robot_board
from support.containers import base_image
from support.engines import OwnEngine
from support.places import ROOT
from support.wire import Wire

DIALOUT_GID = 20


class Pi:
    """The second host: its engine, its robot, and rpi/ as install.sh would leave it, in `folder`."""

    def __init__(self, wire: Wire, folder: Path) -> None:
        self._folder = folder
        self.engine = OwnEngine(folder, wire.command("dockerd"), wire.pi)
        self._board: Board | None = None
        self.rpi = folder / "rpi"
        # What udev's rule would name /dev/looplab-robot.
        self.robot_device = ""

    def __enter__(self) -> Pi:
        shutil.copytree(ROOT / "rpi", self.rpi, ignore=shutil.ignore_patterns(".env", "secrets"))
        # Its metrics and asip's bridge are for the other host; by default nobody reaches them.
        (self.rpi / ".env").write_text("PI_BIND=0.0.0.0\n")
        self.engine.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self.engine.__exit__()
        if self._board is not None:
            self._board.close()

    def kill_bridge(self) -> int:
        """SIGKILL for the bridge's process alone, which its restart policy brings back; monotonic ns of it."""
        pid = int(self._inspect("{{.State.Pid}}"))
        killed_ns = time.perf_counter_ns()
        os.kill(pid, signal.SIGKILL)
        return killed_ns

    def bridge_cpu_s(self) -> float:
        """Processor time of the bridge's process so far."""
        fields = Path(f"/proc/{self._inspect('{{.State.Pid}}')}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def plug_robot(self, image: str) -> None:
        """The simulated robot on a pseudo-terminal of this host, with the rights that the udev rule gives."""
        self._board = robot_board(self._folder / "host", image)
        self.robot_device = by_rule(self._board.device)

    def install(self, *words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """rpi/install.sh as root on a fresh Debian (a container of this machine), with the Pi's engine as its own."""
        folder = str(self._folder)
        command = ["docker", "run", "--rm", "--volume", f"{folder}:{folder}", "--workdir", str(self.rpi)]
        variables = ["--env", f"DOCKER_HOST={self.engine.endpoint}"]
        return subprocess.run(
            [*command, *variables, base_image(), "sh", "./install.sh", *words],
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    @contextmanager
    def settled(self, **settings: str) -> Iterator[None]:
        """What stands in rpi/.env for the time of the block."""
        before = (self.rpi / ".env").read_text()
        self.settle(**settings)
        try:
            yield
        finally:
            (self.rpi / ".env").write_text(before)

    def settle(self, **settings: str) -> None:
        """Write these into rpi/.env; what else stands there stays."""
        file = self.rpi / ".env"
        before = file.read_text().splitlines() if file.exists() else []
        kept = [line for line in before if line.partition("=")[0] not in settings]
        file.write_text("".join(f"{line}\n" for line in [*kept, *(f"{name}={settings[name]}" for name in settings)]))

    def compose(self, *words: str, check: bool = True) -> str:
        """`docker compose` with rpi/compose.yaml, on the Pi."""
        environment = self.engine.environment
        done = subprocess.run(
            ["docker", "compose", "--ansi", "never", "-f", str(self.rpi / "compose.yaml"), *words],
            env={name: value for name, value in environment.items() if not name.startswith(("LAB_", "COMPOSE_"))},
            capture_output=True, text=True, timeout=120, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr

    def containers(self) -> list[str]:
        """Ids of all the Pi's containers."""
        return self.engine.docker("ps", "--all", "--quiet").split()

    def inspected(self) -> str:
        """All that the Pi's engine tells of its containers."""
        return self.engine.docker("inspect", *self.containers())

    def log(self, service: str = "bridge") -> str:
        return self.compose("logs", "--no-log-prefix", service)

    def _inspect(self, form: str) -> str:
        label = "com.docker.compose.service=bridge"
        bridge = self.engine.docker("ps", "--all", "--quiet", "--filter", f"label={label}")
        return self.engine.docker("inspect", "--format", form, bridge)


def by_rule(device: str) -> str:
    """Return `device` with the rights that the udev rule gives."""
    os.chown(device, 0, DIALOUT_GID)
    os.chmod(device, 0o660)
    return device
