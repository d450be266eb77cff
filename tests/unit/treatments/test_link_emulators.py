"""Links of one cell: set, judged by what their emulators report, and removed."""

from collections.abc import Iterator
from typing import Any

import pytest

from looplab.link.settings import LinkSettings
from looplab.system.json_service import Request, serve
from looplab.treatments.emulators import Emulators, deviation

LINKS = {"here": [LinkSettings("peer", way, 6.0, reorder=False) for way in ("egress", "ingress")]}


class Emulator:
    """Answers as the link's service does; `delay_ms` is what its packets were found to be delayed by."""

    def __init__(self) -> None:
        self.links: list[dict[str, Any]] = []
        self.delay_ms = 6.0
        routes = {"PUT /links": self._apply, "GET /links": self._state, "DELETE /links": self._clear}
        self.service = serve("127.0.0.1", 0, routes, "")
        self.all = Emulators({"here": f"http://127.0.0.1:{self.service.server_port}"})

    def end(self) -> None:
        self.service.shutdown()
        self.service.server_close()

    def _apply(self, request: Request) -> dict[str, Any]:
        self.links = request.body
        return {"backend": "netem"}

    def _clear(self, _request: Request) -> dict[str, Any]:
        self.links = []
        return {}

    def _state(self, _request: Request) -> dict[str, Any]:
        figures = {
            "packets": 9,
            "dropped": 0,
            "delay_ms": {"n": 9, "mean": self.delay_ms},
            "theory_ms": {"mean": 6.0, "sd": 0.0},
        }
        return {"links": [{"settings": settings, **figures} for settings in self.links]}


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    started = Emulator()
    yield started
    started.end()


def test_links_without_fault_are_removed_after_their_cell(emulator: Emulator) -> None:
    assert emulator.all.apply(LINKS) == "netem"
    assert len(emulator.links) == 2
    reports, faults = emulator.all.judge(LINKS)
    assert (list(reports), faults) == ([("here", "peer", way) for way in ("egress", "ingress")], [])
    emulator.all.clear(LINKS)
    assert emulator.links == []


@pytest.mark.parametrize(
    ("percent", "dropped", "said"), [(1, 100, ""), (1, 160, "160 of 10000"), (1, 0, "0 of 10000"), (0, 1, "1 of 10000")]
)
def test_a_share_lost_other_than_wanted_is_seen(percent: float, dropped: int, said: str) -> None:
    settings = LinkSettings("peer", "ingress", 6.0, loss_percent=percent).as_json()
    why = deviation({"settings": settings, "packets": 10_000, "dropped": dropped, "delay_ms": {"n": 0}})
    assert why.startswith(said) if said else not why


def test_an_emulator_that_was_restarted_is_a_fault(emulator: Emulator) -> None:
    assert ["restarted" in why for why in emulator.all.judge(LINKS)[1]] == [True]


def test_a_delay_that_was_not_made_is_a_fault(emulator: Emulator) -> None:
    emulator.all.apply(LINKS)
    emulator.delay_ms = 1.0
    assert "link to peer: the egress link's mean delay is 1.00 ms, wanted 6.00 ms" in emulator.all.judge(LINKS)[1]


def test_an_emulator_that_ended_is_a_fault_and_stops_nothing(emulator: Emulator) -> None:
    emulator.end()
    assert ["ended" in why for why in emulator.all.judge(LINKS)[1]] == [True]
    emulator.all.clear(LINKS)
