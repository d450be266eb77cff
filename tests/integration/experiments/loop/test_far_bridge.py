"""A real bridge on another network than its broker: the cable pulled, its counts, its word on what is missing."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.parts import Broker, Child, Listener, RobotDouble, free_port, python, until
from support.wire import Wire

from looplab.experiments.loop.bridge import healthcheck as bridge_status

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
    wire: Wire,
    far_broker: tuple[Broker, int],
    serial_robot: RobotDouble,
    start_command: Callable[..., Child],
    tmp_path: Path,
) -> Child:
    """A bridge in the namespace, its state in the folder `state`."""
    (tmp_path / "state").mkdir()
    return start_command(
        wire.command(*python("looplab.experiments.loop.bridge.program")),
        BROKER_HOST=wire.here, BROKER_PORT=str(far_broker[1]), SERIAL_URL=serial_robot.url,
        FIDELITY="corrected", STATE_DIR=str(tmp_path / "state"),
    )  # fmt: skip


def said_of_itself(folder: Path) -> tuple[int, str]:
    """Exit code and words of bridge_status."""
    words = [sys.executable, "-m", "looplab.experiments.loop.bridge.healthcheck"]
    environment = {**os.environ, "PYTHONPATH": "src", "STATE_DIR": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout


def ask(listener: Listener, numbers: range) -> None:
    for number in numbers:
        listener.say("request/", b"T-far-%d" % number, qos=0)


def answered(listener: Listener) -> list[int]:
    return [int(payload.split(b",")[1]) for payload in listener.payloads("answer/") if b",ok," in payload]


def test_a_cut_of_a_second_costs_no_answer(
    wire: Wire, far_broker: tuple[Broker, int], far_bridge: Child, tmp_path: Path
) -> None:
    broker, _ = far_broker
    state = tmp_path / "state"
    listener = Listener(broker.port)
    until(lambda: listener.last("lab/robot/status") == b"online", "the far bridge's robot")
    code, words = said_of_itself(state)
    assert (code, "retained status says online" in words) == (0, True), words
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
    until(lambda: bridge_status.REFUSED in (state / "bridge.json").read_text(), "the bridge's word on the broker")
    code, words = said_of_itself(state)
    assert code == 0, words
    assert "no run is going on" in words
    far_bridge.stop()
    until(lambda: said_of_itself(state)[0] == 1, "the word on a bridge that is gone")


def test_a_long_cut_ends_in_a_new_connection_of_the_same_bridge(
    wire: Wire, far_broker: tuple[Broker, int], far_bridge: Child, tmp_path: Path
) -> None:
    """The bridge gives a silent peer up after 3 s; its state file goes on without any network."""
    broker, _ = far_broker
    listener = Listener(broker.port)
    until(lambda: listener.last("lab/robot/status") == b"online", "the far bridge's robot")
    told = tmp_path / "state" / "bridge.json"
    with wire.cut():
        ask(listener, range(5))
        until(lambda: not json.loads(told.read_text())["connected"], "the bridge noticing")
        until(lambda: "the network is cut" in far_bridge.said(), "the bridge's word on it")
    mended_s = time.monotonic()
    before = len(listener.payloads("lab/bridge/info"))
    until(lambda: len(listener.payloads("lab/bridge/info")) > before, "the bridge's return")
    print(f"connected again {time.monotonic() - mended_s:.2f} s after the cable was back")
    ask(listener, range(5, 10))
    until(lambda: set(range(5, 10)) <= set(answered(listener)), "answers after the return")
    assert len(answered(listener)) == len(set(answered(listener)))
    assert json.loads(told.read_text())["disconnects"] == 1
    listener.close()
