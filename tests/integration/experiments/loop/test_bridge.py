"""The bridge as a real process between a real broker and a robot double, in good and bad days."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support.parts import ANSWER_TIMEOUT_NS, HOST, Broker, Child, Listener, RobotDouble, free_port, numbered_line, until
from support.places import ROOT

from looplab.experiments.loop.bridge import robot_port
from looplab.experiments.loop.bridge.robot_port import RobotPort
from looplab.experiments.loop.protocol import (
    OFFLINE,
    ONLINE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    Answer,
)

StartBridge = Callable[..., Child]


def answers(listener: Listener, run: str = "run") -> dict[int, Answer]:
    """By sequence; fails where one is malformed or comes twice."""
    found: dict[int, Answer] = {}
    for answer in listener.answers:
        if answer.run == run.encode():
            assert answer.sequence not in found, answer
            found[answer.sequence] = answer
    return found


def ask(listener: Listener, sequence: int, command: str = "T", run: str = "run", qos: int = 1) -> None:
    listener.say(TOPIC_REQUEST, f"{command}-{run}-{sequence}", qos)


def ask_and_wait(listener: Listener, sequence: int, command: str = "T", run: str = "run") -> Answer:
    ask(listener, sequence, command, run)
    answer: Answer = until(lambda: answers(listener, run).get(sequence), f"answer {sequence}")
    return answer


def wait_for_counts(listener: Listener, **wanted: int) -> None:
    def met() -> bool:
        counts = listener.bridge_info.get("counts", {})
        return all(counts.get(name) == value for name, value in wanted.items())

    until(met, f"counts {wanted}, found {listener.bridge_info.get('counts')}")


@pytest.fixture
def bridge(start_bridge: StartBridge, listener: Listener) -> Child:
    child = start_bridge()
    listener.wait_online()
    return child


def test_an_emulated_answer_comes_without_the_robot(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    for sequence in range(20):
        answer = ask_and_wait(listener, sequence, "E")
        assert answer.status == b"ok"
        assert 15 <= float(answer.value) <= 35
    assert robot.asked == 0


def test_the_robots_answer_is_passed_on(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    robot.answer = lambda number: b"-%d.25\r\n" % number
    found = [ask_and_wait(listener, sequence) for sequence in range(20)]
    assert [answer.value for answer in found] == [b"-%d.25" % number for number in range(20)]
    assert {answer.status for answer in found} == {b"ok"}
    assert all(answer.robot_ns > 0 for answer in found)
    # An answer tells the wire time of the one before it, which is the longer of the two.
    assert [answer.wire_sequence for answer in found] == [-1, *range(19)]
    for earlier, later in pairwise(found):
        assert later.wire_robot_ns >= earlier.robot_ns


def test_wire_times_stay_within_their_run(bridge: Child, listener: Listener) -> None:
    ask_and_wait(listener, 5, "E", run="first")
    answer = ask_and_wait(listener, 0, "E", run="second")
    assert answer.wire_sequence == -1
    assert ask_and_wait(listener, 1, "E", run="second").wire_sequence == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_answer_has_the_quality_of_its_request(bridge: Child, listener: Listener, qos: int) -> None:
    ask(listener, 0, "E", qos=qos)
    until(lambda: answers(listener), "the answer")
    assert [message.qos for message in listener.messages if message.topic == TOPIC_ANSWER] == [qos]


def test_pipelined_requests_are_paired_in_order(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    robot.answer = lambda number: b"%d.00\r\n" % number
    for sequence in range(50):
        listener.client.publish(TOPIC_REQUEST, f"T-run-{sequence}", 1)
    until(lambda: len(answers(listener)) == 50, "all answers")
    assert [answers(listener)[k].value for k in range(50)] == [b"%d.00" % k for k in range(50)]


def test_a_request_says_how_long_it_waited_for_those_before_it(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    def answer(number: int) -> bytes:
        if number == 0:
            time.sleep(0.15)
        return b"1.00\r\n"

    robot.answer = answer
    for sequence in range(3):
        listener.client.publish(TOPIC_REQUEST, f"T-run-{sequence}", 1)
    until(lambda: len(answers(listener)) == 3, "all answers")
    ask_and_wait(listener, 3)
    found = answers(listener)
    waits_ns = [found[k + 1].wait_ns for k in range(3)]
    assert waits_ns[0] == 0
    # The second and the third waited for the first.
    assert all(0 < waits_ns[k] <= found[k].robot_ns for k in (1, 2))


def test_requests_that_could_not_be_asked_waited_for_nobody(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    robot.unplug()
    until(lambda: listener.robot_status == OFFLINE, "the robot is missed")
    # Stopped meanwhile, the bridge finds them all at once, and answers each while the others stand behind it.
    bridge.signal(signal.SIGSTOP)
    for sequence in range(8):
        ask(listener, sequence)
    bridge.signal(signal.SIGCONT)
    until(lambda: len(answers(listener)) == 8, "all answers")
    ask_and_wait(listener, 8, "E")
    found = answers(listener)
    assert {found[k].status for k in range(8)} == {b"offline"}
    assert [(found[k + 1].wire_sequence, found[k + 1].wait_ns) for k in range(8)] == [(k, 0) for k in range(8)]


@pytest.mark.parametrize(("framing", "answered", "merged"), [("line", 3, 0), ("burst", 1, 2)])
def test_answers_that_meet(
    start_bridge: StartBridge, listener: Listener, robot: RobotDouble, framing: str, answered: int, merged: int
) -> None:
    start_bridge(ROBOT_FRAMING=framing)
    listener.wait_online()
    # The robot keeps quiet twice, then writes three answers at once.
    robot.answer = lambda number: b"1.00\r\n2.00\r\n3.00\r\n" if number == 2 else b"" if number < 2 else b"4.00\r\n"
    for sequence in range(3):
        listener.client.publish(TOPIC_REQUEST, f"T-run-{sequence}", 1)
    until(lambda: answers(listener), "an answer")
    until(lambda: robot.asked == 3, "the robot was asked three times")
    assert ask_and_wait(listener, 3).value == b"4.00"
    found = answers(listener)
    assert [found[k].value for k in sorted(found) if k < 3] == [b"1.00", b"2.00", b"3.00"][:answered]
    wait_for_counts(listener, requests=4, answers=answered + 1, merged=merged, unasked=0, timeouts=0)


@pytest.fixture
def numbered(start_bridge: StartBridge, listener: Listener) -> Iterator[RobotDouble]:
    """A robot that is asked by number, with its bridge; it answers the number-th request with number.00."""
    double = RobotDouble(numbered=True)
    double.answer_numbered = lambda number, letter: numbered_line(letter, 100 * number)
    start_bridge(SERIAL_URL=double.url)
    listener.wait_online()
    assert listener.bridge_info["robot_numbered"] is True
    yield double
    double.unplug()


def ask_at_once(listener: Listener, count: int) -> dict[int, Answer]:
    for sequence in range(count):
        listener.client.publish(TOPIC_REQUEST, f"T-run-{sequence}", 1)
    until(lambda: len(answers(listener)) == count, "all answers")
    return answers(listener)


def test_numbered_requests_are_paired(numbered: RobotDouble, listener: Listener) -> None:
    found = ask_at_once(listener, 60)
    assert [found[k].value for k in range(60)] == [b"%d.00" % k for k in range(60)]


def test_a_lost_answer_shifts_no_other(numbered: RobotDouble, listener: Listener) -> None:
    lost = {3, 4, 17, 40}
    numbered.answer_numbered = lambda k, letter: b"" if k in lost else numbered_line(letter, 100 * k)
    found = ask_at_once(listener, 60)
    assert {k for k in found if found[k].status == b"timeout"} == lost
    assert [found[k].value for k in found if k not in lost] == [b"%d.00" % k for k in found if k not in lost]
    # Known as lost by the next answer, long before the time is up.
    wait_for_counts(listener, skipped=len(lost), timeouts=0, unasked=0)


def test_a_damaged_answer_is_its_own_requests_loss(numbered: RobotDouble, listener: Listener) -> None:
    def answer(k: int, letter: int) -> bytes:
        whole = numbered_line(letter, 100 * k)
        return {5: whole[:2] + b"\xff" + whole[3:], 9: whole[:3], 20: b"12.00\r\n" + whole}.get(k, whole)

    numbered.answer_numbered = answer
    found = ask_at_once(listener, 40)
    # The half line runs into the next one: both are lost, no more.
    assert {k: found[k].status for k in found if found[k].status != b"ok"} == dict.fromkeys((5, 9, 10), b"garbled")
    assert all(found[k].value == b"%d.00" % k for k in found if found[k].status == b"ok")
    until(lambda: listener.bridge_info["robot_faults"]["noise"] == 3, "three unreadable lines")


def test_a_late_answer_is_nobodys(numbered: RobotDouble, listener: Listener) -> None:
    numbered.answer_numbered = lambda k, letter: b"" if k < 5 else numbered_line(letter, 100 * k)
    assert {answer.status for answer in ask_at_once(listener, 5).values()} == {b"timeout"}
    for letter in b"cefij":
        numbered.say(numbered_line(letter, 9999))
    for sequence in range(5, 30):
        assert ask_and_wait(listener, sequence).value in (b"%d.00" % (numbered.asked - 1), b"")
    assert answers(listener)[29].status == b"ok"


def test_a_burst_is_not_asked_by_number(start_bridge: StartBridge, listener: Listener) -> None:
    double = RobotDouble(numbered=True)
    try:
        start_bridge(SERIAL_URL=double.url, ROBOT_FRAMING="burst")
        listener.wait_online()
        assert ask_and_wait(listener, 0).value == b"25.50"
        assert listener.bridge_info["robot_numbered"] is False
    finally:
        double.unplug()


@pytest.mark.parametrize("framing", ["line", "burst"])
def test_a_line_in_pieces_is_one_answer(
    start_bridge: StartBridge, listener: Listener, robot: RobotDouble, framing: str
) -> None:
    start_bridge(ROBOT_FRAMING=framing)
    listener.wait_online()
    robot.answer = lambda _number: b"2"
    ask(listener, 0)
    until(lambda: robot.asked == 1, "the robot was asked")
    for piece in (b"7", b".5", b"0\r"):
        robot.say(piece)
    assert answers(listener) == {}
    robot.say(b"\n")
    until(lambda: answers(listener), "the answer")
    assert answers(listener)[0].value == b"27.50"


def test_a_robot_that_missed_its_time_is_heard_again_while_requests_go_on(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    mute = True
    robot.answer = lambda _number: b"" if mute else b"25.50\r\n"
    last = -1

    def got(status: bytes) -> bool:
        # More often than the bridge is ever idle: its recovery must not wait for a pause.
        nonlocal last
        last += 1
        ask(listener, last)
        return any(answer.status == status for answer in answers(listener).values())

    until(lambda: got(b"timeout"), "the time runs out")
    assert answers(listener)[0].status == b"timeout"
    assert answers(listener)[0].robot_ns >= ANSWER_TIMEOUT_NS
    mute = False
    until(lambda: got(b"ok"), "the robot is heard again")
    until(lambda: len(answers(listener)) == last + 1, "every request is answered")
    assert {answer.status for answer in answers(listener).values()} <= {b"ok", b"timeout", b"offline"}


def test_an_answer_after_its_time_is_never_taken_for_anothers(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    robot.answer = lambda number: b"" if number == 0 else b"25.50\r\n"
    assert ask_and_wait(listener, 0).status == b"timeout"
    robot.say(b"99.99\r\n")
    for sequence in range(1, 40):
        assert ask_and_wait(listener, sequence).value in (b"25.50", b"")
    assert answers(listener)[39].status == b"ok"


def test_garbage_from_the_robot_is_no_answer(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    garbage = [b"\xff\xfe\x00\r\n", b"2,5\r\n", b"\x1b[31m20.00\r\n", b"nan\r\n", b"\r\n", b"123456.0\r\n", b"x" * 300]
    robot.answer = lambda number: garbage[number] if number < len(garbage) else b"25.50\r\n"
    found = [ask_and_wait(listener, sequence) for sequence in range(len(garbage))]
    assert {(answer.status, answer.value) for answer in found} == {(b"garbled", b"")}
    robot.say(b"\r\n")
    assert ask_and_wait(listener, 50, "E").status == b"ok"
    assert until(lambda: ask_and_wait(listener, 51).status == b"ok", "the robot is heard again")


def test_what_nobody_asked_for_is_counted(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    robot.say(b"20.00\r\n21.00\r\n")
    wait_for_counts(listener, unasked=2)
    assert ask_and_wait(listener, 0).value == b"25.50"


def test_a_robot_that_resets_itself_loses_what_it_was_asked(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    robot.answer = lambda number: RobotDouble.GREETING if number == 0 else b"25.50\r\n"
    answer = ask_and_wait(listener, 0)
    assert answer.status == b"offline"
    # Told at once by the ready line, not by the time that ran out.
    assert listener.bridge_info["counts"]["timeouts"] == 0 or answer.robot_ns < ANSWER_TIMEOUT_NS
    assert ask_and_wait(listener, 1).value == b"25.50"


def test_a_robot_unplugged_and_back(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    assert ask_and_wait(listener, 0).status == b"ok"
    robot.unplug()
    until(lambda: listener.robot_status == OFFLINE, "robot offline")
    assert ask_and_wait(listener, 1).status == b"offline"
    assert ask_and_wait(listener, 2, "E").status == b"ok"
    until(lambda: robot.url in listener.bridge_info["robot_fault"], "the fault is named")
    robot.plug()
    until(lambda: listener.robot_status == ONLINE, "robot online again")
    assert ask_and_wait(listener, 3).status == b"ok"
    assert listener.bridge_status == ONLINE
    until(lambda: listener.bridge_info["reopened"] == 1, "one reopening")


def test_the_robots_return_is_told_although_requests_never_cease(
    bridge: Child, listener: Listener, robot: RobotDouble
) -> None:
    robot.unplug()
    until(lambda: listener.robot_status == OFFLINE, "robot offline")
    robot.plug()
    last = 0

    def told() -> bool:
        nonlocal last
        last += 1
        ask(listener, last)
        return listener.robot_status == ONLINE

    until(told, "robot online again")


def test_a_device_by_name_unplugged_and_back(start_bridge: StartBridge, listener: Listener, tmp_path: Path) -> None:
    double = RobotDouble(tmp_path / "ttyROBOT")
    try:
        start_bridge(SERIAL_URL=double.url)
        listener.wait_online()
        assert listener.bridge_info["robot"] == "looplab double 0.1"
        assert ask_and_wait(listener, 0).value == b"25.50"
        double.unplug()
        until(lambda: listener.robot_status == OFFLINE, "robot offline")
        double.plug()
        until(lambda: listener.robot_status == ONLINE, "robot online again")
        assert ask_and_wait(listener, 1).value == b"25.50"
    finally:
        double.unplug()


def test_a_robot_that_opening_does_not_reset_is_asked_who_it_is(
    start_bridge: StartBridge, listener: Listener, robot: RobotDouble
) -> None:
    robot.greets = False
    start_bridge()
    listener.wait_online()
    until(lambda: listener.bridge_info.get("robot") == "looplab double 0.1", "its identity")
    assert until(lambda: ask_and_wait(listener, len(answers(listener))).status == b"ok", "an answer")


def test_no_robot_is_no_reason_to_stop(start_bridge: StartBridge, listener: Listener) -> None:
    url = f"socket://127.0.0.1:{free_port()}"
    start_bridge(SERIAL_URL=url)
    until(lambda: listener.bridge_status == ONLINE, "bridge online")
    until(lambda: url in listener.bridge_info.get("robot_fault", ""), "the fault is named")
    assert listener.robot_status == OFFLINE
    assert ask_and_wait(listener, 0).status == b"offline"
    assert ask_and_wait(listener, 1, "E").status == b"ok"


def test_what_is_no_request_is_counted_and_ignored(bridge: Child, listener: Listener, robot: RobotDouble) -> None:
    bad = [b"", b"hello", b"T-run", b"X-run-1", b"T-run-x", bytes(range(256)), b"\0" * 10, b"T-run-1\n", b"9" * 200_000]
    for payload in bad:
        listener.say(TOPIC_REQUEST, payload)
    assert ask_and_wait(listener, 0).status == b"ok"
    wait_for_counts(listener, malformed=len(bad), requests=1, answers=1)
    assert robot.asked == 1
    assert list(answers(listener)) == [0]


def test_status_is_retained_and_the_last_will_tells_of_a_crash(
    bridge: Child, broker: Broker, listener: Listener, start_bridge: StartBridge
) -> None:
    late = Listener(broker.port)
    try:
        for topic, payload in ((TOPIC_BRIDGE_STATUS, ONLINE), (TOPIC_ROBOT_STATUS, ONLINE)):
            assert until(lambda topic=topic: late.last(topic), topic) == payload  # type: ignore[misc]
        assert all(message.retain for message in late.messages)
    finally:
        late.close()
    bridge.signal(signal.SIGKILL)
    until(lambda: listener.bridge_status == OFFLINE, "the last will")
    start_bridge()
    listener.wait_online()
    assert ask_and_wait(listener, 0).status == b"ok"


def test_a_bridge_that_is_stopped_says_goodbye_for_both(bridge: Child, listener: Listener) -> None:
    assert bridge.stop() == 0
    until(lambda: listener.bridge_status == OFFLINE, "bridge offline")
    until(lambda: listener.robot_status == OFFLINE, "robot offline")
    assert "Traceback" not in bridge.said()


def test_the_robots_port_is_not_kept_waiting_for_mqtt() -> None:
    """Loading MQTT and TLS takes a slow machine a second, in which the robot's boot loader can be done."""
    code = "import sys, looplab.experiments.loop.bridge.program; print({'paho', 'ssl'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_it_ends_when_it_is_told_to_in_the_moment_its_robot_goes(start_bridge: StartBridge, tmp_path: Path) -> None:
    """Sixteen bridges, the signal from 0 to 1.5 ms after the cable: the time in which a bridge sees to its port."""
    for batch in range(4):
        doubles = [RobotDouble(tmp_path / f"tty{batch}{number}") for number in range(4)]
        try:
            children = [start_bridge(SERIAL_URL=double.url) for double in doubles]
            until(lambda doubles=doubles: all(double.greeted for double in doubles), "every robot greeted")
            # Said when the signal is no longer the end of a process that still loads.
            until(lambda children=children: all("robot at" in child.said() for child in children), "every bridge")
            for number, (double, child) in enumerate(zip(doubles, children, strict=True)):
                double.unplug()
                time.sleep((4 * batch + number) * 1e-4)
                assert child.stop() == 0
        finally:
            for double in doubles:
                double.unplug()


def test_a_signal_within_a_finalizer_is_not_lost(
    start_command: Callable[..., Child], listener: Listener, broker: Broker, robot: RobotDouble
) -> None:
    """An exception that the handler raised there would be."""
    program = """
import itertools, os, signal, sys
from serial.urlhandler import protocol_socket
from looplab.experiments.loop.bridge import program as bridge
finalised = itertools.count()
protocol_socket.Serial.__del__ = lambda self: next(finalised) or os.kill(os.getpid(), signal.SIGTERM)
sys.exit(bridge.main())
"""
    child = start_command(
        [sys.executable, "-c", program], BROKER_HOST=HOST, BROKER_PORT=str(broker.port), SERIAL_URL=robot.url
    )
    listener.wait_online()
    robot.unplug()
    assert child.wait() == 0


def test_a_broker_that_dies_is_found_again(bridge: Child, broker: Broker) -> None:
    broker.kill()
    broker.start()
    listener = Listener(broker.port)
    try:
        listener.wait_online()
        assert ask_and_wait(listener, 0).status == b"ok"
    finally:
        listener.close()


@pytest.mark.parametrize("nodelay", ["on", "off"])
def test_the_bridge_says_how_it_is_really_set_up(
    start_bridge: StartBridge, listener: Listener, robot: RobotDouble, nodelay: str
) -> None:
    start_bridge(TCP_NODELAY=nodelay, ROBOT_FRAMING="burst")
    listener.wait_online()
    found = until(lambda: listener.bridge_info, "its settings")
    assert (found["tcp_nodelay"], found["framing"], found["serial"]) == (nodelay == "on", "burst", robot.url)
    assert found["scheduling"].startswith("SCHED_")


@pytest.fixture
def plain_child(start_child: Callable[..., Child]) -> Callable[..., Child]:
    return lambda **variables: start_child("looplab.experiments.loop.bridge.program", **variables)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FIDELITY", "both"), ("TCP_NODELAY", "maybe"), ("ROBOT_FRAMING", "lines"), ("BROKER_PORT", "mqtt"),
        ("BROKER_PORT", "70000"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(plain_child: Callable[..., Child], name: str, text: str) -> None:
    child = plain_child(**{name: text})
    assert child.wait() == 2
    assert name in child.said()
    assert "Traceback" not in child.said()


def test_a_port_that_is_nobodys_protocol_is_told(start_bridge: StartBridge, listener: Listener) -> None:
    start_bridge(SERIAL_URL="nonsense://robot")
    until(lambda: "nonsense://robot" in listener.bridge_info.get("robot_fault", ""), "the fault is named")


STRANGERS = {
    "another program's board": (b"Grbl 1.1 ready\r\n", "says 'Grbl 1.1'"),
    "a receiver that talks by itself": (b"$GPGGA,120000,5000.0,N,01200.0,E,1\r\n", "says '$GPGGA,120000"),
    "another speed": (b"\xfe\x80\x00\xe6\n\xfc\x98", "says nothing readable"),
    "nobody": (b"", "no robot answers on it"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_device_that_is_no_robot_is_named_by_what_it_says(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whatever it says by itself and when asked who it is; the bridge never asks it for a temperature."""
    said, words = STRANGERS[kind]
    monkeypatch.setattr(robot_port, "READY_TIMEOUT_NS", 200_000_000)
    double = RobotDouble()
    double.greeting = said
    port = RobotPort(double.url, "line")

    def told() -> bool:
        port.maintain()
        return words in port.fault

    try:
        until(told, f"{words!r}: {port.fault}")
        assert "is the lab's firmware flashed?" in port.fault
        assert not port.online
        assert not port.write(b"T")
        assert double.asked == 0
    finally:
        port.close()
        double.unplug()


def test_half_a_ready_line_is_asked_about_at_once() -> None:
    """What is left of it is nobody's name: it would have turned numbering off."""
    double = RobotDouble(numbered=True)
    double.greeting = b"able 0.2 ready\r\n"
    port = RobotPort(double.url, "line")
    try:
        until(lambda: port.maintain() or double.greeted, "half a ready line")
        double.greeting = RobotDouble.GREETING_NUMBERED
        started_s = time.monotonic()
        until(lambda: port.maintain() or port.online, f"its name: {port.fault}")
        assert (port.identity, port.numbered) == ("looplab double 0.2", True)
        assert time.monotonic() - started_s < robot_port.READY_TIMEOUT_NS / 1e9
    finally:
        port.close()
        double.unplug()
