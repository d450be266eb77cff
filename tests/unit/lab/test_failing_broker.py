"""A broker that cannot start ends the run at once; one that starts late or dies by chance does not."""

import threading

import pytest
from support.waiting import until

from looplab.errors import EXIT_MACHINE, MachineError
from looplab.lab import failing_broker
from looplab.lab.failing_broker import ending_with_its_broker


class ComposeDouble:
    """Answers each look with the next of `looks`, the last one for ever."""

    def __init__(self, *looks: dict[str, str]) -> None:
        self.looks = list(looks)
        self.seen = threading.Event()
        self.stopped: list[str] = []

    def fallen(self) -> dict[str, str]:
        if len(self.looks) == 1:
            self.seen.set()
            return self.looks[0]
        return self.looks.pop(0)

    def stop(self, service: str) -> None:
        self.stopped.append(service)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_broker, "LOOK_EVERY_S", 0.01)


def test_a_broker_that_stays_down_ends_the_run() -> None:
    compose = ComposeDouble({}, {"broker": "Error: Unable to open config file"})
    with (
        pytest.raises(MachineError, match=r"whenever it is started\. Its last lines: Error: Unable") as caught,
        ending_with_its_broker(compose, "scenario1"),  # type: ignore[arg-type]
    ):
        until(lambda: compose.stopped == ["scenario1"], "the controller is stopped", 10)
    assert caught.value.exit_code == EXIT_MACHINE


@pytest.mark.parametrize("other", [{}, {"flood": "done", "prepare": "done"}])
def test_one_that_comes_back_and_other_parts_end_nothing(other: dict[str, str]) -> None:
    compose = ComposeDouble({"broker": "killed"}, other, {"broker": "killed"}, other)
    with ending_with_its_broker(compose, "scenario1"):  # type: ignore[arg-type]
        assert compose.seen.wait(10)
    assert compose.stopped == []


@pytest.mark.parametrize("event", [{"event": "plan"}, {"event": "waiting", "what": "bridge"}])
def test_nobody_looks_once_the_broker_has_answered(monkeypatch: pytest.MonkeyPatch, event: dict[str, str]) -> None:
    monkeypatch.setattr(failing_broker, "LOOK_EVERY_S", 0.1)
    compose = ComposeDouble({"broker": "killed"})
    with ending_with_its_broker(compose, "scenario1") as passed:  # type: ignore[arg-type]
        passed({"event": "waiting", "what": "broker at broker:1883"})
        passed(event)
        assert not compose.seen.wait(0.5)
    assert compose.stopped == []
