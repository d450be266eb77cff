"""The lab's firmware, a serial cable, a real bridge and broker: what can befall the robot, and what is said of it."""

import contextlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cable import Cable
from support.parts import HOST, Broker, Child, Listener, free_port, python, until
from support.robot_harness import IDENTITY, Robot
from support.tools import program

from looplab.experiments.loop.protocol import OFFLINE, ONLINE, TOPIC_REQUEST, Answer

pytestmark = pytest.mark.engine

BOOT_MS = 300
INTERVAL_S = 0.01
# The thermistor at 25.5 C, as the converter reads it; the robot in its stand.
TRUE_VALUE = {"T": b"25.57", "U": b"35 0 0 0"}


class Lab:
    """Asks every 10 ms, overlapping where the robot is slow, and hears the answers."""

    def __init__(self, robot: Robot, bridge: Child, listener: Listener, folder: Path) -> None:
        self.robot, self.bridge, self.listener = robot, bridge, listener
        self.folder = folder
        self.asked = 0
        self.command = "T"

    @property
    def answers(self) -> list[Answer]:
        return self.listener.answers

    @property
    def info(self) -> dict[str, Any]:
        return self.listener.bridge_info

    def ask(self) -> None:
        self.listener.client.publish(TOPIC_REQUEST, f"{self.command}-run-{self.asked}", 1)
        self.asked += 1
        time.sleep(INTERVAL_S)

    def ask_until(self, condition: Callable[[], Any], what: str) -> None:
        def step() -> Any:
            self.ask()
            return condition()

        until(step, what)

    def ask_until_answered(self) -> float:
        """Ask until a request sent from now on is answered well; how long that took, in seconds."""
        started, first = time.monotonic(), self.asked
        self.ask_until(lambda: any(a.status == b"ok" and a.sequence >= first for a in self.answers[-50:]), "an answer")
        return time.monotonic() - started

    def ask_times(self, count: int) -> None:
        for _ in range(count):
            self.ask()

    def accounted(self) -> Counter[bytes]:
        """Answers by status, each request answered once; every value that was taken for good is the true one."""
        until(lambda: len(self.answers) >= self.asked, f"all {self.asked} answers, found {len(self.answers)}")
        found = self.answers
        assert sorted(answer.sequence for answer in found) == list(range(self.asked))
        assert {answer.value for answer in found if answer.status == b"ok"} == {TRUE_VALUE[self.command]}
        return Counter(answer.status for answer in found)


@pytest.fixture
def by_id(tmp_path: Path) -> Path:
    folder = tmp_path / "serial" / "by-id"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def lab(start_robot: Callable[..., Robot], tmp_path: Path, by_id: Path) -> Iterator[Lab]:
    """A bridge that looks for the only device of a folder like /dev/serial/by-id; the cable is still out."""
    robot = start_robot("--pty", str(tmp_path / "robot"), "--boot-ms", str(BOOT_MS), "--temperature", "25.5")
    with bridged(robot, tmp_path, f"{by_id}/*") as found:
        yield found


@contextlib.contextmanager
def bridged(robot: Robot, folder: Path, serial_url: str) -> Iterator[Lab]:
    broker = Broker(folder)
    listener = Listener(broker.port)
    variables = {
        "BROKER_HOST": HOST, "BROKER_PORT": str(broker.port), "FIDELITY": "corrected", "SERIAL_URL": serial_url,
    }  # fmt: skip
    bridge = Child(python("looplab.experiments.loop.bridge.program"), folder / "bridge.log", variables)
    until(lambda: listener.bridge_status == ONLINE, "bridge online")
    yield Lab(robot, bridge, listener, folder)
    assert bridge.stop() == 0
    listener.close()
    broker.stop()


@pytest.fixture
def plug(lab: Lab, by_id: Path) -> Iterator[Callable[[int], Cable]]:
    """Puts the cable in: /dev/ttyUSB<number> and its name in by-id."""
    # All there from the start, so that no two have the same device.
    cables = [Cable(lab.folder / "robot", lab.folder / f"ttyUSB{number}") for number in range(2)]

    def plug_in(number: int) -> Cable:
        link = by_id / "usb-1a86_USB_Serial-if00-port0"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../ttyUSB{number}")
        return cables[number]

    yield plug_in
    for cable in cables:
        cable.pull()


def record(what: str, seconds: float) -> None:
    """The true figure, for who wants it: LOOPLAB_FIGURES=<file>."""
    if os.environ.get("LOOPLAB_FIGURES"):
        with open(os.environ["LOOPLAB_FIGURES"], "a", encoding="utf-8") as file:
            file.write(f"{what}: {seconds:.2f} s\n")


def test_cable_out_and_in_under_a_new_number(lab: Lab, plug: Callable[[int], Cable], by_id: Path) -> None:
    until(lambda: "no such device" in lab.info.get("robot_fault", ""), "the missing device is named")
    assert lab.listener.robot_status == OFFLINE
    cable = plug(0)
    record("cable in (boot loader 0.3 s)", lab.ask_until_answered())
    assert lab.info["robot"] == IDENTITY
    lab.ask_times(50)
    cable.pull()
    for link in by_id.iterdir():
        link.unlink()
    lab.ask_until(lambda: lab.listener.robot_status == OFFLINE, "robot offline")
    assert "cable out" in lab.bridge.said()
    assert plug(1).device != cable.device
    record("cable out and in, new number (boot loader 0.3 s)", lab.ask_until_answered())
    lab.ask_times(50)
    statuses = lab.accounted()
    # On a busy machine an answer may miss its time, too.
    assert set(statuses) <= {b"ok", b"offline", b"timeout"}
    assert statuses[b"offline"] > 0
    assert statuses[b"ok"] > 50
    until(lambda: lab.listener.robot_status == ONLINE and lab.info["robot_fault"] == "", "told")
    faults = lab.info["robot_faults"]
    assert (faults["unplugged"], faults["reset"], faults["noise"]) == (1, 0, 0)


def test_reset_in_the_middle_of_an_answer(lab: Lab, plug: Callable[[int], Cable]) -> None:
    plug(0)
    lab.ask_until_answered()
    for _ in range(3):
        lab.ask_times(10)
        lab.robot.process.send_signal(signal.SIGUSR2)
        record("reset (boot loader 0.3 s)", lab.ask_until_answered())
    statuses = lab.accounted()
    assert set(statuses) <= {b"ok", b"offline", b"timeout", b"garbled"}
    until(lambda: lab.info["robot_faults"]["reset"] == 3, f"three resets told: {lab.info}")
    assert lab.info["robot_faults"]["unplugged"] == 0
    assert re.search(r"the robot was reset.*reset 3", lab.bridge.said())


@pytest.mark.parametrize("command", ["T", "U"])
def test_noise_costs_requests_and_never_makes_an_answer(lab: Lab, plug: Callable[[int], Cable], command: str) -> None:
    """Of what may be spoilt one byte in 16 is lost, changed or doubled on the way there and back."""
    lab.command = command
    cable = plug(0)
    lab.ask_until_answered()
    cable.noise = 1 / 16
    lab.ask_until(lambda: cable.spoilt >= 60, "noise")
    cable.noise = 0.0
    record("noise", lab.ask_until_answered())
    lab.ask_times(30)
    assert {answer.status for answer in lab.answers if answer.sequence >= lab.asked - 20} == {b"ok"}
    statuses = lab.accounted()
    assert set(statuses) <= {b"ok", b"offline", b"timeout", b"garbled"}
    assert statuses[b"ok"] > statuses[b"garbled"] > 0
    until(lambda: lab.info["robot_faults"]["noise"] > 0, "noise told")
    assert "noise on the wire" in lab.bridge.said()
    assert lab.info["robot_faults"]["unplugged"] == 0


@pytest.mark.parametrize(
    ("accepter", "url"),
    # A pseudo-terminal has no DTR line to set, so its server never says that it did.
    [("tcp", "socket://{}"), ("telnet(rfc2217),tcp", "rfc2217://{}?ign_set_control")],
)
def test_a_robot_at_another_machines_serial_server(
    start_robot: Callable[..., Robot], tmp_path: Path, accepter: str, url: str
) -> None:
    """ser2net, as docs/serial.md sets it up; then it is stopped and started again."""
    robot = start_robot("--pty", str(tmp_path / "robot"), "--boot-ms", "1000", "--temperature", "25.5")
    address = f"{HOST},{free_port()}"
    configuration = tmp_path / "ser2net.yaml"
    configuration.write_text(
        "connection: &robot\n"
        f"  accepter: {accepter}(nodelay=true),{address}\n"
        f"  connector: serialdev,{tmp_path}/robot,57600n81,local\n"
        "  options:\n    chardelay: false\n"
    )
    command = [program("ser2net"), "-d", "-n", "-c", str(configuration)]
    server = Child(command, tmp_path / "ser2net.log")
    try:
        with bridged(robot, tmp_path, url.format(address.replace(",", ":"))) as lab:
            lab.ask_until_answered()
            lab.ask_times(20)
            server.kill()
            lab.ask_until(lambda: lab.listener.robot_status == OFFLINE, "robot offline")
            server = Child(command, tmp_path / "ser2net.log")
            record(f"{accepter} server back (boot loader 1 s)", lab.ask_until_answered())
            statuses = lab.accounted()
            assert set(statuses) <= {b"ok", b"offline", b"timeout"}
            assert lab.info["robot_faults"]["unplugged"] == 1
    finally:
        server.kill()
