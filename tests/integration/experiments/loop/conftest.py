"""The loop on loopback for one test, or for those of a module that leave its parts as they are."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.loop_lab import LoopLab
from support.parts import Broker, Child, Listener, starter
from support.robot_double import RobotDouble


@pytest.fixture
def lab(
    broker: Broker, robot: RobotDouble, listener: Listener, start_command: Callable[..., Child], tmp_path: Path
) -> Iterator[LoopLab]:
    with contextlib.closing(LoopLab(broker, robot, listener, start_command, tmp_path)) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopLab]:
    """A lab whose bridge and robot are online."""
    folder = tmp_path_factory.mktemp("loop")
    with contextlib.ExitStack() as stack:
        broker, robot = Broker(folder), RobotDouble()
        stack.callback(broker.kill)
        stack.callback(robot.unplug)
        listener = stack.enter_context(contextlib.closing(Listener(broker.port)))
        found = LoopLab(broker, robot, listener, starter(folder, stack), folder)
        stack.callback(found.close)
        found.online_bridge()
        yield found


@pytest.fixture
def kept(shared: LoopLab, tmp_path: Path) -> LoopLab:
    """The module's lab with a folder for this test's run; the bridge stays, and no test changes it."""
    shared.results = tmp_path / "results"
    shared.results.mkdir()
    shared.listener.messages.clear()
    return shared


@pytest.fixture
def online(lab: LoopLab) -> LoopLab:
    """A lab whose bridge and robot are online."""
    lab.online_bridge()
    return lab
