"""The bridge's robot: which device is opened, which answer belongs to which request, and what the bridge appends."""

import errno
import os
import pty
import random
import re
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from support.compose_files import merged
from support.places import ROOT

from looplab.errors import LabError
from looplab.experiments.loop.bridge import robot_answers
from looplab.experiments.loop.bridge.answer_times import MOST_LEAVING, AnswerTimes, Query
from looplab.experiments.loop.bridge.serial_device import latency_timer_ms, open_port, refuse_others
from looplab.experiments.loop.protocol import TOPIC_ANSWER, LoopRequest, parse_answer

NOBODY = 65534


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A pseudo-terminal as tmp_path/by-id/usb-robot."""
    ours, theirs = pty.openpty()
    link = tmp_path / "by-id" / "usb-robot"
    link.parent.mkdir()
    link.symlink_to(os.ttyname(theirs))
    yield link
    os.close(ours)
    os.close(theirs)


def refusal(url: str, others: Sequence[str] = ()) -> str:
    with pytest.raises(LabError) as found:
        open_port(url, others)
    return str(found.value)


def test_an_open_port_is_no_other_programs(device: Path) -> None:
    """By its lock, and by the kernel for a program that asks for none and is not root."""
    device.chmod(0o666)
    with open_port(f"{device.parent}/*") as port:
        assert (port.port, port.baudrate, port.timeout) == (str(device), 57600, 0)
        assert refusal(str(device)) == f"{device}: another program has it (`fuser {device}` names it)"
        refuse_others(port.fileno())
        # Any reader that every user may start.
        user = NOBODY if os.geteuid() == 0 else None
        command = ["head", "--bytes", "1", os.path.realpath(device)]
        done = subprocess.run(command, user=user, capture_output=True, text=True, check=False, cwd="/")
        assert os.strerror(errno.EBUSY) in done.stderr
    with open_port(str(device), low_latency=True) as again:
        assert again.is_open


@pytest.mark.parametrize(("text", "timer_ms"), [("16\n", 16), ("1\n", 1), ("", None), (None, None)])
def test_an_adapters_latency_timer_is_read(tmp_path: Path, text: str | None, timer_ms: int | None) -> None:
    """As the kernel shows it of the device behind a link; another adapter's driver has none."""
    (tmp_path / "looplab-robot").symlink_to("ttyUSB3")
    timer = tmp_path / "devices/ttyUSB3/device/latency_timer"
    timer.parent.mkdir(parents=True)
    if text is not None:
        timer.write_text(text)
    assert latency_timer_ms(str(tmp_path / "looplab-robot"), tmp_path / "devices") == timer_ms


def test_what_cannot_be_opened_is_named_with_its_remedy(device: Path, tmp_path: Path) -> None:
    (tmp_path / "leads-nowhere").symlink_to("../../ttyUSB0")
    for name in ("none/*", "ttyUSB0", "leads-nowhere"):
        path = f"{tmp_path}/{name}"
        assert refusal(path) == f"{path}: no such device: is the robot plugged in and switched on?"
    (tmp_path / "ttyACM3").touch()
    said = refusal(f"{tmp_path}/looplab-robot", [f"{tmp_path}/ttyACM*"])
    assert said.endswith(f"(there is {tmp_path}/ttyACM3: if that is the robot, name it in ROBOT_DEVICE)")
    device.with_name("usb-another").symlink_to("/dev/null")
    both = f"{device.with_name('usb-another')}, {device}"
    assert refusal(f"{device.parent}/*") == f"{device.parent}/*: there are 2 ({both}): name one in ROBOT_DEVICE"
    urls = ("socket://127.0.0.1:1", "socket://127.0.0.1", "rfc2217://127.0.0.1:1", "nonsense://x")
    for url in ("/dev/null", "/etc/hostname", *urls):
        assert refusal(url).startswith(f"{url}: ")


def test_a_device_of_another_group_says_whose_number_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "ttyUSB0"
    path.touch(mode=0)
    user = os.geteuid()
    # Root may open everything.
    os.seteuid(user or NOBODY)
    try:
        assert f"stat -c %g {path}" in refusal(str(path))
    finally:
        os.seteuid(user)


def test_the_container_may_open_serial_devices_alone() -> None:
    bridge = merged(ROOT, {"ROBOT": "usb"})["bridge"]
    # A node copied at the start would stop the start where it is missing, and go stale.
    assert "devices" not in bridge
    assert "/dev/shm" in bridge["tmpfs"]
    pi = yaml.safe_load((ROOT / "rpi/compose.yaml").read_text())["services"]["bridge"]
    for one in (bridge, pi):
        assert "/dev:/dev:ro" in one["volumes"]
        # ttyUSB and ttyACM.
        assert one["device_cgroup_rules"] == ["c 188:* rw", "c 166:* rw"]
    assert not {"privileged", "cap_add", "user"} & set(bridge)


STATE = b"-12 340 5 -87"


def test_a_line_with_one_wrong_byte_is_never_another_answer() -> None:
    bodies = (b"0", b"7", b"2557", b"-525", b"12500", b"2446", b"-44", b"1890", b"35 0 0 0", STATE)
    for text in (bytes([letter]) + body for letter in robot_answers.NUMBERS for body in bodies):
        whole = text + bytes([robot_answers.check_letter(text)])
        assert robot_answers.parse_numbered(whole) is not None
        for place in range(len(whole)):
            for byte in range(256):
                if byte != whole[place]:
                    assert robot_answers.parse_numbered(whole[:place] + bytes([byte]) + whole[place + 1 :]) is None
            assert robot_answers.parse_numbered(whole[:place] + whole[place + 1 :]) is None
            assert robot_answers.parse_numbered(whole[:place] + whole[place : place + 1] + whole[place:]) is None


@pytest.mark.parametrize(
    ("pieces", "stand_for"),
    [
        ([b"25.57\r\n"], [1]),
        ([b"25.", b"5", b"7\r\n"], [1, 0, 0]),
        ([b"25.57\r\n26.", b"01\r\n"], [2, 0]),
        ([b"25.57\r\n26.01\r\n"], [2]),
        ([b"25.57\r\n", b"26.01\r", b"\n27.00\r\n"], [1, 1, 1]),
        ([b"\xff\x00", b",", b"x" * 300], [1, 0, 0]),
        ([b"looplab mbot_ranger 0.3.0 ready\r\n", b"25.57\r\n"], [1]),
    ],
)
def test_raw_bytes_are_an_answer_that_stands_for_the_lines_that_begin_in_it(
    pieces: list[bytes], stand_for: list[int]
) -> None:
    robot = robot_answers.Answers("raw", robot_answers.Faults())
    found = [reply for piece in pieces for reply in robot.cut(piece)[0]]
    assert [reply.stands_for for reply in found] == stand_for
    assert all(re.fullmatch(rb"[ -+\--~]{1,32}", reply.value) for reply in found)


def test_as_published_a_state_has_no_number() -> None:
    robot = robot_answers.Answers("burst", robot_answers.Faults())
    assert robot.ask(b"\xc5") == b"\xc5"
    assert robot.cut(STATE[:5]) == ([], b"")
    for lines, found in ((STATE[5:], (STATE, 1)), (b"ERR tilt", (b"", 1)), (STATE + b"\r\n" + STATE, (STATE, 2))):
        (reply,), _ = robot.cut(lines + b"\r\n")
        assert (reply.value, reply.stands_for) == found


@pytest.mark.parametrize("seed", range(5))
def test_pairs_stay_true_whatever_is_lost(seed: int) -> None:
    """Against a robot that knows which request each of its answers is for."""
    random_robot = random.Random(seed)
    window = robot_answers.Window()
    waiting: deque[int] = deque()
    on_the_wire: deque[tuple[int, int]] = deque()
    written = asked = answered = 0

    def put(sent: bytes) -> None:
        nonlocal written
        for byte in sent:
            # A level of the wheels' voltage follows its number.
            if byte < 128:
                on_the_wire.append((written, byte % 32 + 96))
                written += 1

    for _ in range(20_000):
        if random_robot.random() < 0.5 and len(waiting) < 40:
            waiting.append(asked)
            asked += 1
            put(window.ask(random_robot.choice([b"T", b"\xc0"])))
        elif on_the_wire:
            request, letter = on_the_wire.popleft()
            if random_robot.random() < 0.2 and on_the_wire:
                continue
            found = window.answered(letter)
            assert found is not None
            skipped, letters = found
            for _ in range(skipped):
                waiting.popleft()
            assert waiting.popleft() == request
            answered += 1
            put(letters)
    assert answered > 5000


RUN = b"run"


def nothing() -> None:
    """No stamp is there."""


def query(sequence: int) -> Query:
    """Return a request of 500 ns, whose answer has been sent."""
    request = LoopRequest(b"T", RUN, sequence)
    return Query(request, 0, 500, 400, 70, TOPIC_ANSWER, b"", answered_ns=1000, wire_robot_ns=500)


def told(sent: AnswerTimes) -> tuple[int, int, int]:
    """Return what the next answer reports: sequence, wake-up, send path."""
    found = parse_answer(b"run,9,ok,5,20.0" + sent.take(RUN, True, nothing))
    assert found is not None
    return found.wire_sequence, found.wake_up_ns, found.send_path_ns


def test_answers_that_leave_late_are_all_reported_in_order() -> None:
    sent, every = AnswerTimes(), [query(sequence) for sequence in range(4)]
    for one in every:
        assert told(sent) == (-1, -1, -1)
        sent.add(one)
    for one in every:
        one.left(2000)
    assert [told(sent)[0] for _ in range(5)] == [0, 1, 2, 3, -1]


def test_stamps_that_never_come_hold_up_no_later_answer_and_fill_no_memory() -> None:
    sent, second = AnswerTimes(), query(1)
    sent.add(query(0))
    sent.add(second)
    second.left(1001)
    assert [told(sent), told(sent)] == [(0, 70, -1), (1, 70, 1)]
    for sequence in range(3 * MOST_LEAVING):
        sent.take(RUN, True, nothing)
        sent.add(query(sequence))
    assert told(sent)[0] == 2 * MOST_LEAVING
