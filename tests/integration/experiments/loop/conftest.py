"""The bridge and the controller as real processes between the parts of tests/integration/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.parts import HOST, Broker, Child, RobotDouble, TreatmentsDouble, bridge_command, python

StartChild = Callable[..., Child]


@pytest.fixture
def start_bridge(broker: Broker, robot: RobotDouble, start_command: StartChild) -> StartChild:
    """Return a function that starts a bridge between the broker and the robot double; variables override."""

    def start(**variables: str) -> Child:
        settings = {
            "BROKER_HOST": HOST, "BROKER_PORT": str(broker.port), "SERIAL_URL": robot.url, "FIDELITY": "corrected",
        }  # fmt: skip
        return start_command(bridge_command(), **{**settings, **variables})

    return start


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def treatments(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[int]]]:
    """Yield the processes that a treatments double finds."""
    pids: dict[str, list[int]] = {}
    double = TreatmentsDouble(lambda: {**pids, "broker": [broker.pid]})
    monkeypatch.setenv("TREATMENTS_URL", double.url)
    yield pids
    double.close()


@pytest.fixture
def start_controller(
    broker: Broker, results: Path, treatments: dict[str, list[int]], start_command: StartChild
) -> StartChild:
    """Return a function that starts a short run of E at 10 ms, corrected; `program` runs it in a way of its own."""

    def start(command: list[str] | None = None, **variables: str) -> Child:
        settings = {
            "BROKER_HOST": HOST, "BROKER_PORT": str(broker.port), "RESULTS_DIR": str(results), "SCENARIO": "scenario0",
            "FIDELITY": "corrected", "COMMAND": "E", "INTERVALS_MS": "10", "MESSAGES": "20", "REPETITIONS": "2",
            "WARMUP_MESSAGES": "5", "LOOPLAB_EVENTS": "json", "PARTS_TIMEOUT_S": "20",
        }  # fmt: skip
        words = command or python("looplab.experiments.loop")
        child = start_command(words, **{**settings, **variables})
        treatments["controller"] = [child.pid]
        return child

    return start
