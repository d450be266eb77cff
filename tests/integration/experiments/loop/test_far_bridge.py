"""A real bridge on another network than its broker: the cable pulled, its counts, its word on the broker."""

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.parts import Broker, Child, Listener, free_port, python, until
from support.robot_double import RobotDouble
from support.wire import Wire

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

CUT_S = 1.0


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire(os.getpid() % 200 + 20) as there:
        yield there


@pytest.fixture
def far_broker(start_broker: Callable[..., Broker], wire: Wire) -> tuple[Broker, int]:
    """The broker, on loopback for the test and on the port given for the bridge."""
    port = free_port()
    return start_broker(more=f"allow_anonymous true\nlistener {port} {wire.here}\n"), port


@pytest.fixture
def serial_robot(tmp_path: Path) -> Iterator[RobotDouble]:
    double = RobotDouble(tmp_path / "robot")
    yield double
    double.unplug()


@pytest.fixture
def far_bridge(
    wire: Wire, far_broker: tuple[Broker, int], serial_robot: RobotDouble, start_command: Callable[..., Child]
) -> Child:
    """A bridge in the namespace."""
    return start_command(
        wire.command(*python("looplab.experiments.loop.bridge.program")),
        BROKER_HOST=wire.here, BROKER_PORT=str(far_broker[1]), SERIAL_URL=serial_robot.url,
        FIDELITY="corrected",
    )  # fmt: skip


def ask(listener: Listener, numbers: range) -> None:
    for number in numbers:
        listener.say("request/", b"T-far-%d" % number, qos=0)


def answered(listener: Listener) -> list[int]:
    return [int(payload.split(b",")[1]) for payload in listener.payloads("answer/") if b",ok," in payload]


def test_a_cut_of_a_second_costs_no_answer(wire: Wire, far_broker: tuple[Broker, int], far_bridge: Child) -> None:
    broker, _ = far_broker
    listener = Listener(broker.port)
    until(lambda: listener.last("lab/robot/status") == b"online", "the far bridge's robot")
    assert "bridge: broker: connected to" in far_bridge.said()
    instance = json.loads(listener.last("lab/bridge/info"))["instance"]
    # TCP keeps what is sent while the cable is out; the connection outlives a second.
    with wire.cut():
        ask(listener, range(10))
        time.sleep(CUT_S)
        assert answered(listener) == []
    mended_s = time.monotonic()
    until(lambda: len(answered(listener)) == 10, "every answer after the cut")
    print(f"answers {time.monotonic() - mended_s:.2f} s after the cable was back")
    assert answered(listener) == list(range(10))
    assert b"offline" not in listener.payloads("lab/bridge/status")
    assert json.loads(listener.last("lab/bridge/info"))["instance"] == instance
    listener.close()
    broker.stop()
    until(lambda: os.strerror(errno.ECONNREFUSED) in far_bridge.said(), "the bridge's word on the broker")


def test_a_long_cut_ends_in_a_new_connection_of_the_same_bridge(
    wire: Wire, far_broker: tuple[Broker, int], far_bridge: Child
) -> None:
    """The bridge gives a silent peer up after 3 s."""
    broker, _ = far_broker
    listener = Listener(broker.port)
    until(lambda: listener.last("lab/robot/status") == b"online", "the far bridge's robot")
    with wire.cut():
        ask(listener, range(5))
        until(lambda: "the network is cut" in far_bridge.said(), "the bridge's word on it")
    mended_s = time.monotonic()
    before = len(listener.payloads("lab/bridge/info"))
    until(lambda: len(listener.payloads("lab/bridge/info")) > before, "the bridge's return")
    print(f"connected again {time.monotonic() - mended_s:.2f} s after the cable was back")
    ask(listener, range(5, 10))
    until(lambda: set(range(5, 10)) <= set(answered(listener)), "answers after the return")
    assert len(answered(listener)) == len(set(answered(listener)))
    assert json.loads(listener.last("lab/bridge/info"))["disconnects"] == 1
    listener.close()
