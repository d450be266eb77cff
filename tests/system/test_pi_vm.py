"""A whole virtual machine as the Pi: its kernel's USB driver, udev and systemd, and rpi/ as a teacher uses it.

All nine scenarios over the network, and what may fall: cable, bridge, robot, machine. Minutes of measuring, so only
with LAB_PI_VM set. What recovery took is printed and stands in rpi/recovery.tsv.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.board import ROBOT_FILES, Board
from support.containers import copy_out, own_image
from support.e2e_lab import PROJECT, Background, Lab, free_port
from support.places import ROOT
from support.run_checks import check_run, read_samples, total, treatments
from support.vm_disk import Disk, make_disk
from support.whole_vm import BOOT_LIMIT_S, IN_HARDWARE, Machine
from support.wire import TapWire

from looplab import __version__
from looplab.experiments.loop.bridge_news import REBOOTED, RESTARTED
from looplab.experiments.loop.table import table
from looplab.lab.bundle_file import write_bundle

# QEMU cannot pass the adapter's DTR line to a pseudo-terminal: it is read from QEMU's trace, and resets the board.
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
        """Pass the adapter's DTR line to the board, which is reset when it rises."""
        if DEVICE_RESET in line:
            self._dtr_up = False
        elif (lines := MODEM_LINES.search(line)) and (value := int(lines[1], 16)) & DTR_MEANT:
            up = bool(value & DTR_UP)
            if up and not self._dtr_up:
                self.board.reset()
            self._dtr_up = up


pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a disk of Debian's packages and network namespaces need root"),
    pytest.mark.flag("LAB_PI_VM"),
    pytest.mark.timeout(600 if IN_HARDWARE else 3600),
]

RULES = ROOT / "rpi" / "99-looplab-robot.rules"
INSTALL = "./install.sh --pairing ../pi.env --image ../bridge.tar"
OUT_S = 3.0
GUARD_NS, DEADLINE_NS = 100_000_000, 1_000_000_000
# So many answers in a row are a recovery.
STEADY = 20
# An emulated processor is a tenth as fast, and not alone on the real one: what it takes is told, and bounded loosely.
BOUND_S = 2.0 if IN_HARDWARE else 20.0
LIMIT_S = 120 + 10 * BOUND_S
INTERVAL_MS = 20 if IN_HARDWARE else 100
# Down and up again, until the bridge answers.
BOOT_S = 60.0 if IN_HARDWARE else 360.0


@pytest.fixture(scope="module")
def pi(session_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pi]:
    folder = tmp_path_factory.mktemp("pi-vm")
    copy_out(own_image("robot"), folder, *ROBOT_FILES)
    board = Board(folder, folder, "mbot_ranger.hex", "--pty", str(folder / "port"))
    with closing(board), TapWire(os.getpid() % 200 + 20) as wire:
        lan = {"LAB_BIND": wire.here, "LAB_LAN_BIND": wire.here, "LAB_TLS_PORT": str(free_port())}
        session_lab.environment.update(ROBOT="remote", LAB_PI=wire.there, **lan)
        session_lab.run("pair", str(folder / "pi.env"), "--address", wire.here, code=0)
        write_bundle(folder / "bridge.tar", [own_image("bridge", LAB_TAG=PROJECT)], {"lab": __version__})
        with Pi(wire, folder, make_disk("pi").copy_to(folder), board) as machine:
            machine.bring(session_lab.root / "rpi", folder / "pi.env", folder / "bridge.tar")
            yield machine


@pytest.fixture(scope="module")
def installed(pi: Pi) -> Pi:
    """As rpi/README.md says; framing line, so that counts are exact."""
    pi.run("echo ROBOT_FRAMING=line >rpi/.env")
    planned = pi.run(f"cd rpi && {INSTALL} --check")
    print(planned)
    assert "would install docker.io" in planned
    assert "would add the udev rule" in planned
    done = pi.run(f"cd rpi && sudo {INSTALL}", timeout_s=300)
    print(done)
    assert "set up the robot's name /dev/looplab-robot\n" in done
    assert "robot: online" in done
    assert "Connection refused" in done
    return pi


@pytest.fixture
def paired(session_lab: Lab, installed: Pi) -> Iterator[Lab]:
    """The bridge runs on the machine, its counts at nought."""
    installed.compose("up --detach")
    yield session_lab
    session_lab.run("down", code=0)
    installed.compose("down")


def start(lab: Lab, seconds: float) -> Background:
    """scenario1 with framing line for at least `seconds`; the first hundred messages have been sent."""
    repetitions = int(seconds * 1000 / INTERVAL_MS / 100) + 1
    return lab.measuring("scenario1", repetitions, "--allow-invalid", interval_ms=INTERVAL_MS, ROBOT_FRAMING="line")


def recovered_s(samples: list[dict[str, str]], mended_ns: int) -> float:
    """Seconds from `mended_ns` until requests are answered in time again: STEADY of them in a row."""
    good = 0
    for row in (row for row in samples if int(row["due_ns"]) >= mended_ns):
        good = good + 1 if row["outcome"] == "answered" else 0
        if good == 1:
            since_ns = int(row["due_ns"])
        if good == STEADY:
            return (since_ns - mended_ns) / 1e9
    raise AssertionError("no recovery before the run's end")


def ended(
    lab: Lab, running: Background, what: str, mended_ns: int, timeout_s: float = LIMIT_S
) -> tuple[dict[str, Any], list[dict[str, str]], float]:
    """The run, its samples, and recovered_s, once `running` has ended well; what happened is printed as `what`."""
    run = running.ended(0, timeout_s)
    samples = read_samples(lab.root / "results" / run["run_id"])
    took_s = recovered_s(samples, mended_ns)
    counts = {name: total(run, name) for name in ("sent", "answered", "late", "lost", "robot_errors")}
    print(f"{what}: recovered after {took_s:.2f} s; {counts}; {run['absences']}")
    return run, samples, took_s


def test_the_rule_names_the_robot(installed: Pi) -> None:
    installed.run("udevadm verify /etc/udev/rules.d/99-looplab-robot.rules")
    assert installed.run("readlink /dev/looplab-robot").strip() == "ttyUSB0"
    assert installed.run("stat -L -c '%G %a' /dev/looplab-robot").strip() == "dialout 660"
    # Another adapter's line differs by its numbers alone.
    rules = [line for line in RULES.read_text().splitlines() if not line.startswith("#")]
    assert len({re.sub(r'=="[0-9a-f]{4}"', "", rule) for rule in rules}) == 1


def test_all_nine_scenarios(paired: Lab) -> None:
    """Over TLS: every run valid, every message answered."""
    words = ("--messages", "25", "--repetitions", "2", "--json")
    done = paired.run("run", "all", *words, timeout_s=900, code=0, ROBOT_FRAMING="line", STRESS_VM_BYTES="16M")
    runs = json.loads(done.stdout)["runs"]
    assert [run["scenario"] for run in runs] == [f"scenario{number}" for number in range(9)]
    for run in runs:
        check_run(paired.root / "results" / run["run_id"], run)
        assert run["bridge"].get("tls", "").startswith("TLS"), run["bridge"]
        assert treatments(run)["bridge apart from the load"]["wanted"] == "own machine"
        assert run["parameters"]["robot"] == "remote"
        if run["parameters"]["command"] == "T":
            assert run["bridge"]["robot"].startswith("looplab"), run["bridge"]
        # Stamps of two machines' kernels: the parts of O are known as on one, where no packets come in together.
        assert sum(cell["ledger_us"]["network"]["n"] for cell in run["cells"] if not cell["qos"]) > 0
        # The stress takes the processors of the simulated robot, too: it may be silent longer than the bridge waits.
        assert total(run, "answered") + total(run, "robot_errors") == total(run, "sent"), run["cells"]


@pytest.mark.parametrize("cut_s", [1, 10, 60])
def test_the_network_is_cut(paired: Lab, installed: Pi, cut_s: int) -> None:
    """Counts are exact, the cause is named, and the bridge is back in time."""
    running = start(paired, cut_s + BOUND_S + 10)
    time.sleep(1)
    cut_ns = time.perf_counter_ns()
    with installed.wire.cut():
        time.sleep(cut_s)
    mended_ns = time.perf_counter_ns()
    run, samples, took_s = ended(paired, running, f"cut for {cut_s} s", mended_ns, LIMIT_S + cut_s)
    print(installed.log())
    # This machine's monotonic clock is the controller's: what was asked while the cable was out got no answer in time.
    out = [row for row in samples if cut_ns + GUARD_NS < int(row["due_ns"]) < mended_ns - DEADLINE_NS]
    assert {row["outcome"] for row in out} <= {"late", "lost"}
    assert out or cut_s == 1
    assert any(row["outcome"] != "answered" for row in samples)
    assert took_s < BOUND_S
    if cut_s >= 10:
        assert "the network is cut" in installed.log()
        (absence,) = run["absences"]
        assert "network" in absence["cause"]


def test_the_bridge_is_killed(paired: Lab, installed: Pi) -> None:
    """Its process alone, as its restart policy brings it back: `docker kill` would count as a person's wish."""
    running = start(paired, BOUND_S + 12)
    bridge = installed.compose("ps --quiet bridge").strip()
    installed.run(f"sudo kill -9 $(sudo docker inspect --format '{{{{.State.Pid}}}}' {bridge})")
    # The command takes a part of a second to come there, in which all is answered.
    killed_ns = time.perf_counter_ns()
    run, _, took_s = ended(paired, running, "bridge killed", killed_ns)
    (absence,) = run["absences"]
    assert absence["cause"] == RESTARTED
    # Python must start first.
    assert took_s < BOUND_S + 8


@pytest.mark.parametrize("number", ["the same number", "another number"])
def test_the_usb_cable_is_pulled(paired: Lab, installed: Pi, number: str) -> None:
    running = start(paired, BOUND_S + 10)
    if number == "another number":
        installed.hold("/dev/ttyUSB0", int(OUT_S + BOUND_S) + 5)
    time.sleep(1)
    with installed.usb_cable_out():
        out_ns = time.perf_counter_ns()
        time.sleep(OUT_S)
    in_ns = time.perf_counter_ns()
    time.sleep(BOUND_S)
    found = installed.run("readlink /dev/looplab-robot").strip()
    what = f"USB cable out for {OUT_S:g} s, {number} ({found})"
    run, samples, took_s = ended(paired, running, what, in_ns)
    print(installed.log())
    assert found == ("ttyUSB0" if number == "the same number" else "ttyUSB1")
    out = {row["outcome"] for row in samples if out_ns + GUARD_NS < int(row["due_ns"]) < in_ns}
    assert out == {"robot_error"}
    assert run["bridge"]["robot_faults"]["unplugged"] == 1
    assert "cable out, or the port gone" in installed.log()
    assert took_s < BOUND_S


@pytest.mark.parametrize("how", ["reboot typed", "plug pulled"])
def test_the_machine_starts_again(paired: Lab, installed: Pi, how: str) -> None:
    running = start(paired, BOOT_S)
    time.sleep(1)
    if how == "reboot typed":
        started_ns = installed.reboot()
    else:
        installed.pull_plug()
        time.sleep(OUT_S)
        started_ns = installed.plug_in()
    installed.wait_until_up()
    run, _, took_s = ended(paired, running, how, started_ns, timeout_s=4 * BOOT_S)
    (absence,) = run["absences"]
    assert absence["cause"] == REBOOTED
    assert REBOOTED in " ".join(table(run).split())
    assert took_s < BOOT_S
    assert total(run, "answered") > 0


def test_uninstalling_leaves_nothing(installed: Pi) -> None:
    gone = installed.run("cd rpi && sudo ./install.sh --uninstall")
    print(gone)
    assert installed.run("sudo docker ps --all --quiet; sudo docker image ls --quiet").strip() == ""
    installed.run("udevadm settle")
    left = "ls rpi/.env rpi/secrets /etc/udev/rules.d/99-looplab-robot.rules /dev/looplab-robot 2>/dev/null"
    assert installed.run(left, check=False).strip() == ""
