"""Fixtures that end what they start, in the order that leaves no process behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.parts import HOST, MOSQUITTO, Broker, Child, Listener, RobotDouble, bridge_command, python


@pytest.fixture(autouse=True, scope="session")
def _mosquitto() -> None:
    if MOSQUITTO is None:
        message = "mosquitto is not installed: apt-get install mosquitto"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    brokers: list[Broker] = []

    def start(*, nodelay: bool = True, more: str = "") -> Broker:
        brokers.append(Broker(tmp_path, nodelay=nodelay, more=more))
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
    """Starts a command with these variables."""
    children: list[Child] = []

    def start(command: list[str], **variables: str) -> Child:
        children.append(Child(command, tmp_path / f"child-{len(children)}.log", variables))
        return children[-1]

    yield start
    for child in reversed(children):
        if child.process.poll() is None:
            child.stop()


@pytest.fixture
def start_child(start_command: Callable[..., Child]) -> Callable[..., Child]:
    """Starts one of the lab's modules with these variables."""
    return lambda module, **variables: start_command(python(module), **variables)


@pytest.fixture
def start_bridge(broker: Broker, robot: RobotDouble, start_command: Callable[..., Child]) -> Callable[..., Child]:
    """A real bridge between the broker and the robot double; variables override."""

    def start(**variables: str) -> Child:
        settings = {
            "BROKER_HOST": HOST, "BROKER_PORT": str(broker.port), "SERIAL_URL": robot.url, "FIDELITY": "corrected",
        }  # fmt: skip
        return start_command(bridge_command(), **{**settings, **variables})

    return start
