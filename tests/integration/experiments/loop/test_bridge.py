"""The bridge as a real process between a real broker and a robot double, in good and bad days."""

import contextlib
import os
import signal
import sys
import time
from itertools import pairwise

import pytest
from support.loop_lab import LoopLab
from support.parts import ANSWER_TIMEOUT_NS, HOST, LIMIT_S, Listener, free_port, until
from support.places import ROOT
from support.robot_double import RobotDouble, answer_line
from support.wire import call

from looplab.experiments.loop.bridge.robot_answers import Answers, Faults
from looplab.experiments.loop.bridge.robot_port import RobotPort
from looplab.experiments.loop.protocol import OFFLINE, ONLINE, TOPIC_BRIDGE_STATUS, TOPIC_REQUEST, TOPIC_ROBOT_STATUS
from looplab.mqtt.client import ClientOptions, wait_for
from looplab.mqtt.client_5 import Mqtt5Client
from looplab.mqtt.dial import Target
from looplab.mqtt.packets import CORRELATION_DATA, RESPONSE_TOPIC, property_bytes, with_length
from looplab.system.processes import facts

BRIDGE = "looplab.experiments.loop.bridge.program"


def test_with_mqtt_5_the_answer_goes_where_the_request_says(lab: LoopLab) -> None:
    lab.online_bridge(MQTT_VERSION="5", TOPIC_ALIAS="on")
    assert lab.listener.bridge_info["mqtt_version"] == "5"
    heard: dict[bytes, tuple[bytes, bytes]] = {}

    def hear(topic: bytes, payload: bytes, _qos: int) -> None:
        heard[payload.split(b",")[1]] = (topic, asking.properties)

    asking = Mqtt5Client(Target(HOST, lab.broker.port, True), "asking", ClientOptions([("mine/#", 2)]), hear)
    wanted = {}
    with contextlib.closing(asking):
        assert asking.connect(LIMIT_S)
        assert wait_for([asking], lambda: asking.subscribed, LIMIT_S)
        for number in range(9):
            topic, correlation = b"mine/%d" % (number % 2), property_bytes(CORRELATION_DATA, bytes([number]) * 20)
            wanted[b"%d" % number] = (topic, with_length(correlation))
            properties = property_bytes(RESPONSE_TOPIC, topic) + correlation
            asking.publish(TOPIC_REQUEST, b"E-run-%d" % number, number // 3, properties=properties)
        assert wait_for([asking], lambda: len(heard) == 9, LIMIT_S), "an answer to each of three at each QoS"
    assert heard == wanted
    # A request that names nothing is answered as ever.
    assert lab.answer_to(10, "E").status == b"ok"


def test_the_robots_answer_is_passed_on(online: LoopLab) -> None:
    online.robot.answer = lambda number, request: answer_line(request, -100 * number - 25)
    found = [online.answer_to(sequence) for sequence in range(20)]
    assert [(answer.status, answer.value) for answer in found] == [(b"ok", b"-%d.25" % number) for number in range(20)]
    assert all(answer.robot_ns > 0 for answer in found)
    # An answer carries the wire time of the one before it, which is the longer of the two.
    assert [answer.wire_sequence for answer in found] == [-1, *range(19)]
    assert all(later.wire_robot_ns >= earlier.robot_ns for earlier, later in pairwise(found))
    # In its own run only.
    assert online.answer_to(0, "E", run="second").wire_sequence == -1
    assert online.answer_to(1, "E", run="second").wire_sequence == 0


def test_a_request_reports_how_long_it_was_queued(online: LoopLab) -> None:
    online.robot.answer = lambda number, request: (number == 0 and time.sleep(0.15)) or answer_line(request, 100)
    online.answers_to(3)
    online.answer_to(3)
    found = online.answers()
    assert found[1].wait_ns == 0
    # The second and the third waited for the first.
    assert all(0 < found[k + 1].wait_ns <= found[k].robot_ns for k in (1, 2))


@pytest.mark.parametrize("framing", ["line", "burst"])
def test_a_late_answer_is_nobodys(lab: LoopLab, framing: str) -> None:
    lab.online_bridge(ROBOT_FRAMING=framing)
    lab.robot.answer = lambda k, request: b"" if k < 5 else answer_line(request, 100 * k)
    assert {answer.status for answer in lab.answers_to(5).values()} == {b"timeout"}
    for request in lab.robot.requests[:5]:
        lab.robot.say(answer_line(request, 9999))
    for sequence in range(5, 30):
        assert lab.answer_to(sequence).value in (b"%d.00" % (lab.robot.asked - 1), b"")
    assert lab.answers()[29].status == b"ok"


@pytest.mark.parametrize("framing", ["line", "burst"])
def test_a_line_in_pieces_is_one_answer_and_garbage_is_none(framing: str) -> None:
    robot = Answers(framing, Faults())
    (asked,) = robot.ask(b"T")
    line = answer_line(asked, 2750)
    pieces = (line[:1], line[1:3], line[3:-1], line[-1:])
    assert [[reply.value for reply in robot.cut(piece)[0]] for piece in pieces] == [[], [], [], [b"27.50"]]
    garbage = (b"\xff\xfe\x00\r\n", b"2,5\r\n", b"\x1b[31m20.00\r\n", b"nan\r\n", b"\r\n", b"123456.0\r\n", b"x" * 300)
    found = [reply.value for noise in garbage for reply in robot.cut(noise)[0]]
    assert found == ([] if framing == "line" else [b""] * len(garbage))
    assert robot.garbled


def test_a_robot_that_was_late_is_heard_again_under_load(online: LoopLab) -> None:
    """Its recovery must not wait for a pause."""
    mute = True
    online.robot.answer = lambda _number, request: b"" if mute else answer_line(request, 2550)

    def got(status: bytes) -> bool:
        return any(answer.status == status for answer in online.listener.answers)

    def heard_again() -> bool:
        nonlocal mute
        mute = mute and not got(b"timeout")
        return not mute and got(b"ok")

    asked = online.ask_until(heard_again, "the time runs out, then the robot is heard again")
    until(lambda: len(online.answers()) == asked, "every request is answered")
    assert (online.answers()[0].status, online.answers()[0].robot_ns >= ANSWER_TIMEOUT_NS) == (b"timeout", True)
    assert {answer.status for answer in online.answers().values()} <= {b"ok", b"timeout", b"offline"}


def test_what_nobody_asked_for_is_counted(online: LoopLab) -> None:
    online.robot.say(answer_line(ord("c"), 2000) + answer_line(ord("e"), 2100))
    for payload in (b"", b"E-run", b"\xff" * 50):
        online.listener.say(TOPIC_REQUEST, payload)
    online.wait_for_counts(unasked=2, malformed=3)
    assert online.answer_to(0).value == b"25.50"


def test_a_robot_that_opening_does_not_reset_is_asked_who_it_is(lab: LoopLab) -> None:
    lab.robot.greets = False
    lab.online_bridge()
    until(lambda: lab.listener.bridge_info.get("robot") == "looplab double 0.3", "its identity")
    assert until(lambda: lab.answer_to(len(lab.answers())).status == b"ok", "an answer")


def test_no_robot_is_no_reason_to_stop(lab: LoopLab) -> None:
    url = f"socket://{HOST}:{free_port()}"
    lab.bridge(SERIAL_URL=url)
    until(lambda: url in lab.listener.bridge_info.get("robot_fault", ""), "the fault is named")
    until(lambda: (lab.listener.bridge_status, lab.listener.robot_status) == (ONLINE, OFFLINE), "both statuses")
    assert lab.answer_to(0).status == b"offline"
    assert lab.answer_to(1, "E").status == b"ok"


def test_status_is_retained_and_its_end_is_published_after_a_crash_and_a_stop(lab: LoopLab) -> None:
    bridge = lab.online_bridge()
    late = Listener(lab.broker.port)
    for topic in (TOPIC_BRIDGE_STATUS, TOPIC_ROBOT_STATUS):
        assert until(lambda topic=topic: late.last(topic), topic) == ONLINE
    assert all(message.retain for message in late.messages)
    late.close()
    bridge.signal(signal.SIGKILL)
    until(lambda: lab.listener.bridge_status == OFFLINE, "the last will")
    bridge = lab.online_bridge()
    assert lab.answer_to(0).status == b"ok"
    assert bridge.stop() == 0
    until(lambda: lab.listener.bridge_status == OFFLINE, "bridge offline")
    until(lambda: lab.listener.robot_status == OFFLINE, "robot offline")
    assert "Traceback" not in bridge.said()


def test_the_robots_port_is_not_kept_waiting_for_mqtt() -> None:
    """Loading MQTT and TLS takes a slow machine a second, in which the robot's boot loader can be done."""
    code = f"import sys, {BRIDGE}; print({{'paho', 'ssl'}} & set(sys.modules))"
    assert call(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}) == "set()"


def test_a_signal_within_a_finalizer_is_not_lost(lab: LoopLab) -> None:
    """An exception that the handler raised there would be: here as the bridge closes the port of a robot that went."""
    program = f"""
import itertools, os, signal, sys
from serial.urlhandler import protocol_socket
import {BRIDGE} as bridge
finalised = itertools.count()
protocol_socket.Serial.__del__ = lambda self: next(finalised) or os.kill(os.getpid(), signal.SIGTERM)
sys.exit(bridge.main())
"""
    child = lab.bridge([sys.executable, "-c", program])
    lab.listener.wait_online()
    lab.robot.unplug()
    assert child.wait() == 0


@pytest.mark.parametrize(("own_machine", "receiver"), [("yes", "spin"), ("", "select")])
def test_the_bridge_spins_on_a_machine_of_its_own(lab: LoopLab, own_machine: str, receiver: str) -> None:
    bridge = lab.online_bridge(FIDELITY="printed", OWN_MACHINE=own_machine)
    assert until(lambda: lab.listener.bridge_info.get("receiver"), "the bridge's report") == receiver
    before, begun = facts(bridge.pid), time.monotonic()
    time.sleep(0.5)
    after = facts(bridge.pid)
    runnable_ns = sum(after[name] - before[name] for name in ("cpu_ns", "cpu_wait_ns"))
    assert (runnable_ns > 0.5e9 * (time.monotonic() - begun)) is (receiver == "spin")
    assert lab.answer_to(0).status == b"ok"


def test_a_device_that_is_no_robot_is_not_taken_for_one(at_end: contextlib.ExitStack) -> None:
    """Whatever it says by itself and when asked who it is; the bridge never asks it for a temperature."""
    devices, ports = [], []
    for greeting in (b"Grbl 1.1 ready\r\n", b"$GPGGA,120000,5000.0,N\r\n", b"\xfe\x80\n\xfc", b""):
        devices.append(device := RobotDouble())
        at_end.callback(device.unplug)
        device.greeting = greeting
        ports.append(at_end.enter_context(contextlib.closing(RobotPort(device.url, "line"))))

    def judged() -> bool:
        for port in ports:
            port.maintain()
        return all("is the lab's firmware flashed?" in port.fault for port in ports)

    until(judged, f"four faults: {[port.fault for port in ports]}")
    assert not any(port.online or port.write(b"T") for port in ports)
    assert not any(device.asked for device in devices)
