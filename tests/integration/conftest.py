"""Real parts on loopback. Fixtures end what they start, in the order that leaves no process behind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.parts import Broker, Child, Listener, RobotDouble, python


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    brokers: list[Broker] = []

    def start(**settings: Any) -> Broker:
        brokers.append(Broker(tmp_path, **settings))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.stop()


@pytest.fixture
def broker(start_broker: Callable[..., Broker]) -> Broker:
    return start_broker()


@pytest.fixture
def listener(broker: Broker) -> Iterator[Listener]:
    found = Listener(broker.port)
    yield found
    found.close()


@pytest.fixture
def robot() -> Iterator[RobotDouble]:
    double = RobotDouble()
    yield double
    double.unplug()


@pytest.fixture
def start_command(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Return a function that starts a command with these variables."""
    children: list[Child] = []

    def start(command: list[str], **variables: str) -> Child:
        children.append(Child(command, tmp_path / f"child-{len(children)}.log", variables))
        return children[-1]

    yield start
    for child in reversed(children):
        child.close()


@pytest.fixture
def start_child(start_command: Callable[..., Child]) -> Callable[..., Child]:
    """Return a function that starts one of the lab's modules with these variables."""
    return lambda module, *arguments, **variables: start_command(python(module, *arguments), **variables)
