"""The bridge on a second host, as on a Raspberry Pi: all nine scenarios, the network cut, the bridge killed.

The second host is a network namespace behind a switch, with an engine of its own and the firmware in its simulator.
Minutes of measuring, so only with LAB_TWO_HOSTS set. What recovery took is printed and stands in bench/README.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.board import Board, robot_board
from support.containers import base_image, own_image
from support.e2e_lab import Lab
from support.engines import OwnEngine
from support.far_runs import (
    RECOVERY_BOUND_S,
    bridge_image,
    bundle_of_bridge,
    check_all_nine_scenarios,
    check_network_cut,
    ended,
    pair,
    put_on,
    start,
)
from support.places import ROOT
from support.run_checks import treatments
from support.wire import Wire, call

from looplab.experiments.loop.bridge_news import RESTARTED

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
        (self.rpi / ".env").touch()
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
        self.robot_device = self._board.device
        os.chown(self.robot_device, 0, DIALOUT_GID)
        os.chmod(self.robot_device, 0o660)

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

    def inspected(self) -> str:
        """All that the Pi's engine tells of its containers."""
        return self.engine.docker("inspect", *self.engine.docker("ps", "--all", "--quiet").split())

    def log(self) -> str:
        return self.compose("logs", "--no-log-prefix", "bridge")

    def _inspect(self, form: str) -> str:
        label = "com.docker.compose.service=bridge"
        bridge = self.engine.docker("ps", "--all", "--quiet", "--filter", f"label={label}")
        return self.engine.docker("inspect", "--format", form, bridge)


KIND = os.environ.get("LAB_TWO_HOSTS", "")
KINDS = {"1": "with TLS, as ./lab pair sets it up", "plain": "without TLS"}
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and a second engine need root"),
    pytest.mark.flag("LAB_TWO_HOSTS"),
]

# The Pi's engine must start first.
BOOT_S = 8.0


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire(os.getpid() % 200 + 20) as there:
        yield there


@pytest.fixture(scope="module")
def far_lab(session_lab: Lab, wire: Wire) -> Lab:
    """The lab of this machine, its ports on the address that the Pi sees."""
    lab = put_on(wire, session_lab)
    if KIND == "plain":
        lab.environment["BROKER_TLS"] = "off"
    return lab


@pytest.fixture(scope="module")
def pi(far_lab: Lab, wire: Wire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pi]:
    with Pi(wire, tmp_path_factory.mktemp("pi")) as there:
        there.plug_robot(own_image("robot"))
        yield there


@pytest.fixture(scope="module")
def pairing(far_lab: Lab, wire: Wire, pi: Pi) -> Path:
    """What `./lab pair` writes, with TLS or without."""
    return pair(far_lab, wire, pi.rpi.parent / "pairing.env")


@pytest.fixture(scope="module")
def installed(far_lab: Lab, pi: Pi, pairing: Path) -> Pi:
    """rpi/install.sh has run: real apt, real engine, the image from a file; framing line, so that counts are exact."""
    image = pi.rpi.parent / "bridge.tar"
    if KIND == "plain":
        call("docker", "save", "--output", str(image), bridge_image())
    else:
        bundle_of_bridge(image)
    pi.settle(ROBOT_FRAMING="line", ROBOT_DEVICE=pi.robot_device, BROKER_HOST="10.0.0.1")
    words = ["--pairing", str(pairing), "--image", str(image), "--wait", "15"]
    planned = pi.install("--check", *words)
    print(planned.stdout)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "would install docker.io" in planned.stdout
    done = pi.install(*words)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "robot: online" in done.stdout
    assert "Connection refused" in done.stdout
    return pi


@contextmanager
def far_bridge(far_lab: Lab, installed: Pi, **settings: str) -> Iterator[None]:
    """The bridge is up on the Pi, with these settings."""
    with installed.settled(**settings):
        installed.compose("up", "--detach")
        try:
            yield
        finally:
            far_lab.run("down", code=0)
            installed.compose("down")


@pytest.fixture
def paired(far_lab: Lab, installed: Pi) -> Iterator[Lab]:
    """The bridge is up on the Pi."""
    with far_bridge(far_lab, installed):
        yield far_lab


def test_what_was_installed(installed: Pi, pairing: Path) -> None:
    kept = (installed.rpi / ".env").read_text()
    assert "ROBOT_FRAMING=line" in kept, "what was set on the Pi stays"
    assert "10.0.0.1" not in kept, "the address of the broker is a new one"
    given = dict(line.split("=", 1) for line in pairing.read_text().splitlines() if "=" in line)
    secret = given.get("BROKER_PASSWORD")
    assert secret is None or secret not in kept + installed.compose("config")
    inspected = installed.inspected()
    assert secret is None or secret not in inspected
    services = [found["Config"]["Labels"]["com.docker.compose.service"] for found in json.loads(inspected)]
    assert services == ["bridge"]
    kept_whole = installed.rpi / "secrets" / "pairing.env"
    assert (kept_whole.stat().st_mode & 0o777, kept_whole.stat().st_uid) == (0o400, 10002)
    again = installed.install("--wait", "15")
    assert again.returncode == 0, "a second time: " + again.stdout + again.stderr


def test_all_nine_scenarios(paired: Lab, wire: Wire) -> None:
    check_all_nine_scenarios(paired, tls=KIND == "1")


def test_the_bridge_on_the_pi_spins_as_printed(far_lab: Lab, installed: Pi) -> None:
    """On a machine of its own the printed receiver takes a whole processor, as the thesis's main thread did."""
    with far_bridge(far_lab, installed, FIDELITY="printed"):
        words = ("run", "scenario1", "--quick", "--fidelity", "printed", "--json")
        running = far_lab.start(*words, ROBOT_FRAMING="line")
        running.wait_for("20 ms, QoS 0")
        took_s, cpu_s = -time.monotonic(), -installed.bridge_cpu_s()
        time.sleep(1)
        took_s, cpu_s = took_s + time.monotonic(), cpu_s + installed.bridge_cpu_s()
        run = running.ended()
        found = treatments(run)["bridge receiver"]
        print(f"the bridge had {cpu_s / took_s:.0%} of a processor; O {run['cells'][0]['O_us']['avg']:.0f} us")
        assert (found["wanted"], found["found"]) == ("spin", "spin")
        # One that sleeps takes a fiftieth of this; on a shared machine the spinning one waits as well.
        assert cpu_s > 0.3 * took_s


@pytest.mark.parametrize("cut_s", [1, 10, 60])
def test_the_network_is_cut(paired: Lab, wire: Wire, pi: Pi, cut_s: int) -> None:
    check_network_cut(paired, cut_s, wire.cut, pi.log)


def test_the_bridge_is_killed(paired: Lab, wire: Wire, pi: Pi) -> None:
    running = start(paired, 15)
    killed_ns = pi.kill_bridge()
    run, _, took_s = ended(paired, running, "bridge killed", killed_ns, timeout_s=180)
    (absence,) = run["absences"]
    assert absence["cause"] == RESTARTED
    assert took_s < RECOVERY_BOUND_S + BOOT_S
