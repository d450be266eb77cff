"""The loop on loopback for one test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.loop_lab import LoopLab
from support.parts import Broker, Child, Listener, RobotDouble


@pytest.fixture
def lab(
    broker: Broker, robot: RobotDouble, listener: Listener, start_command: Callable[..., Child], tmp_path: Path
) -> Iterator[LoopLab]:
    found = LoopLab(broker, robot, listener, start_command, tmp_path)
    yield found
    found.close()


@pytest.fixture
def online(lab: LoopLab) -> LoopLab:
    """A lab whose bridge and robot are online."""
    lab.online_bridge()
    return lab
