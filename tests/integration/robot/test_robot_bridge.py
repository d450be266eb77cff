"""The lab's firmware, a serial cable, a real bridge and broker: what can befall the robot, and what is said of it.

And what a set clock changes while it balances: nothing.
"""

import contextlib
import os
import pty
import random
import re
import select
import threading
import tty
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import serial
from support.board import IDENTITY, Board
from support.loop_lab import LoopLab
from support.parts import HOST, Broker, Child, Listener, free_port, until
from support.tools import program

from looplab.experiments.loop.protocol import OFFLINE, ONLINE

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
        out = b""
        for byte in data:
            passed = bytes([byte])
            self._since_spoilt += 1
            # Two in one line could make another good one: one in 23 check letters is right by chance.
            if self._since_spoilt > LINE_BYTES and self._random.random() < self.noise:
                self.spoilt += 1
                self._since_spoilt = 0
                passed = self._random.choice((b"", self._random.randbytes(1), 2 * passed))
            out += passed
        return out


pytestmark = pytest.mark.engine

BOOT_MS = 300
INTERVAL_S = 0.01
# The thermistor at 25.5 C, as the converter reads it; the robot in its stand.
TRUE_VALUE = {"T": b"25.57", "U": b"35 0 0 0"}


class Lab(LoopLab):
    """Asks every 10 ms, overlapping where the robot is slow, and hears the answers of its bridge, a `process`."""

    pause_s = INTERVAL_S
    process: Child

    def ask_until_answered(self) -> None:
        """Ask until a request sent from now on is answered well."""
        first = self.asked

        def answered() -> bool:
            return any(one.status == b"ok" and one.sequence >= first for one in self.listener.answers[-50:])

        self.ask_until(answered, "an answer")

    def ask_times(self, count: int) -> None:
        end = self.asked + count
        self.ask_until(lambda: self.asked == end, f"{count} requests")

    def accounted(self) -> Counter[bytes]:
        """Answers by status, each request answered once; every value that was taken for good is the true one."""
        until(lambda: len(self.listener.answers) >= self.asked, f"all {self.asked} answers")
        found = self.listener.answers
        assert sorted(answer.sequence for answer in found) == list(range(self.asked))
        assert {answer.value for answer in found if answer.status == b"ok"} == {TRUE_VALUE[self.command]}
        return Counter(answer.status for answer in found)


Bridged = Callable[..., Lab]


@pytest.fixture
def bridged(
    broker: Broker, listener: Listener, start_command: Callable[..., Child], start_robot: Callable[..., Board],
    tmp_path: Path,
) -> Iterator[Bridged]:  # fmt: skip
    """Return a function that starts a robot at tmp_path/robot, and a bridge to `url`; the bridge ends well."""
    labs: list[Lab] = []

    def start(url: str, **variables: str) -> Lab:
        robot = start_robot("--pty", str(tmp_path / "robot"), "--boot-ms", str(BOOT_MS), "--temperature", "25.5")
        labs.append(made := Lab(broker, robot, listener, start_command, tmp_path))
        made.process = made.bridge(SERIAL_URL=url, **variables)
        until(lambda: listener.bridge_status == ONLINE, "bridge online")
        return made

    yield start
    for lab in labs:
        lab.close()
        assert lab.process.stop() == 0


@pytest.fixture
def lab(bridged: Bridged, tmp_path: Path) -> Lab:
    """A bridge that looks for the only device of a folder like /dev/serial/by-id; the cable is still out."""
    (tmp_path / "by-id").mkdir()
    return bridged(f"{tmp_path}/by-id/*")


@pytest.fixture
def plug(lab: Lab, tmp_path: Path) -> Iterator[Callable[[int], Cable]]:
    """Puts the cable in: /dev/ttyUSB<number> and its name in by-id."""
    # All there from the start, so that no two have the same device.
    cables = [Cable(tmp_path / "robot", tmp_path / f"ttyUSB{number}") for number in range(2)]

    def plug_in(number: int) -> Cable:
        link = tmp_path / "by-id/usb-1a86_USB_Serial-if00-port0"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../ttyUSB{number}")
        return cables[number]

    yield plug_in
    for cable in cables:
        cable.pull()


def test_cable_out_and_in_under_a_new_number(lab: Lab, plug: Callable[[int], Cable], tmp_path: Path) -> None:
    until(lambda: "no such device" in lab.listener.bridge_info.get("robot_fault", ""), "the missing device is named")
    assert lab.listener.robot_status == OFFLINE
    cable = plug(0)
    lab.ask_until_answered()
    assert lab.listener.bridge_info["robot"] == IDENTITY
    lab.ask_times(50)
    cable.pull()
    for link in (tmp_path / "by-id").iterdir():
        link.unlink()
    lab.ask_until(lambda: lab.listener.robot_status == OFFLINE, "robot offline")
    assert "cable out" in lab.process.said()
    assert plug(1).device != cable.device
    lab.ask_until_answered()
    lab.ask_times(50)
    statuses = lab.accounted()
    # On a busy machine an answer may miss its time, too.
    assert set(statuses) <= {b"ok", b"offline", b"timeout"}
    assert statuses[b"offline"] > 0
    assert statuses[b"ok"] > 50
    until(lambda: lab.listener.robot_status == ONLINE and lab.listener.bridge_info["robot_fault"] == "", "told")
    faults = lab.listener.bridge_info["robot_faults"]
    assert (faults["unplugged"], faults["reset"], faults["noise"]) == (1, 0, 0)


def test_reset_in_the_middle_of_an_answer(lab: Lab, plug: Callable[[int], Cable]) -> None:
    plug(0)
    lab.ask_until_answered()
    for _ in range(3):
        lab.ask_times(10)
        lab.robot.reset()
        lab.ask_until_answered()
    statuses = lab.accounted()
    assert set(statuses) <= {b"ok", b"offline", b"timeout", b"garbled"}
    until(lambda: lab.listener.bridge_info["robot_faults"]["reset"] == 3, "three resets told")
    assert lab.listener.bridge_info["robot_faults"]["unplugged"] == 0
    assert re.search(r"the robot was reset.*reset 3", lab.process.said())


@pytest.mark.parametrize("command", ["T", "U"])
def test_noise_costs_requests_and_never_makes_an_answer(lab: Lab, plug: Callable[[int], Cable], command: str) -> None:
    """Of what may be spoilt one byte in 16 is lost, changed or doubled on the way there and back."""
    lab.command = command
    cable = plug(0)
    lab.ask_until_answered()
    cable.noise = 1 / 16
    lab.ask_until(lambda: cable.spoilt >= 30, "noise")
    cable.noise = 0.0
    lab.ask_until_answered()
    lab.ask_times(30)
    assert {answer.status for answer in lab.listener.answers if answer.sequence >= lab.asked - 20} == {b"ok"}
    statuses = lab.accounted()
    assert set(statuses) <= {b"ok", b"offline", b"timeout", b"garbled"}
    assert statuses[b"ok"] > statuses[b"garbled"] > 0
    until(lambda: lab.listener.bridge_info["robot_faults"]["noise"] > 0, "noise told")
    assert "noise on the wire" in lab.process.said()
    assert lab.listener.bridge_info["robot_faults"]["unplugged"] == 0


@pytest.mark.parametrize(
    ("accepter", "url"),
    # A pseudo-terminal has no DTR line to set, so its server never says that it did.
    [("tcp", "socket://{}"), ("telnet(rfc2217),tcp", "rfc2217://{}?ign_set_control")],
)
def test_a_robot_at_another_machines_serial_server(
    bridged: Bridged, start_command: Callable[..., Child], tmp_path: Path, accepter: str, url: str
) -> None:
    """ser2net, as docs/serial.md sets it up; then it is stopped and started again."""
    address = f"{HOST},{free_port()}"
    configuration = tmp_path / "ser2net.yaml"
    configuration.write_text(
        "connection: &robot\n"
        f"  accepter: {accepter}(nodelay=true),{address}\n"
        f"  connector: serialdev,{tmp_path}/robot,57600n81,local\n"
        "  options:\n    chardelay: false\n"
    )
    command = [program("ser2net"), "-d", "-n", "-c", str(configuration)]
    server = start_command(command)
    lab = bridged(url.format(address.replace(",", ":")))
    lab.ask_until_answered()
    lab.ask_times(20)
    server.kill()
    lab.ask_until(lambda: lab.listener.robot_status == OFFLINE, "robot offline")
    start_command(command)
    lab.ask_until_answered()
    assert set(lab.accounted()) <= {b"ok", b"offline", b"timeout"}
    assert lab.listener.bridge_info["robot_faults"]["unplugged"] == 1


MESSAGES = 100
# Ten minutes in each unit.
BOUNDS = {"us": 600e6, "ns": 600e9, "ms": 600e3, "s": 600.0}
READ = "import time; print(max(time.time() - time.perf_counter() for _ in range(300) if not time.sleep(.001)))"
