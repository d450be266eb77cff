"""Real parts on loopback. Fixtures end what they start, in the order that leaves no process behind."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.parts import Broker, Child, Listener, python, starter
from support.robot_double import RobotDouble
from support.wire import Wire


@pytest.fixture
def at_end() -> Iterator[contextlib.ExitStack]:
    """What its callbacks end, the last first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def start_broker(tmp_path: Path, at_end: contextlib.ExitStack) -> Callable[..., Broker]:
    def start(**settings: Any) -> Broker:
        broker = Broker(tmp_path, **settings)
        at_end.callback(broker.kill)
        return broker

    return start


@pytest.fixture
def broker(start_broker: Callable[..., Broker]) -> Broker:
    return start_broker()


@pytest.fixture
def listener(broker: Broker, at_end: contextlib.ExitStack) -> Listener:
    return at_end.enter_context(contextlib.closing(Listener(broker.port)))


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    """A network whose cable a test may pull."""
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    with Wire(os.getpid() % 200 + 20) as found:
        yield found


@pytest.fixture
def robot() -> Iterator[RobotDouble]:
    double = RobotDouble()
    yield double
    double.unplug()


@pytest.fixture
def start_command(tmp_path: Path, at_end: contextlib.ExitStack) -> Callable[..., Child]:
    return starter(tmp_path, at_end)


@pytest.fixture
def start_child(start_command: Callable[..., Child]) -> Callable[..., Child]:
    """Return a function that starts one of the lab's modules with these variables."""
    return lambda module, *arguments, **variables: start_command(python(module, *arguments), **variables)
