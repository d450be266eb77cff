"""Which edges of a wave were copied, and the search for the highest frequency that is."""

import pytest

from looplab.experiments.asip.board import CYCLE_NS
from looplab.experiments.asip.oscilloscope import Oscilloscope, Scope
from looplab.experiments.asip.waves import bisect, copy_delays_ns, search_result

WAVE, COPY = 2, 13


@pytest.mark.parametrize(
    ("seen", "cycles"),
    [
        # Several are on their way at once.
        ([(WAVE, 1, 0), (WAVE, 0, 10), (WAVE, 1, 20), (COPY, 1, 28), (COPY, 0, 36), (COPY, 1, 44)], [28, 24]),
        ([(WAVE, 1, 0), (COPY, 1, 6), (WAVE, 0, 10), (WAVE, 1, 20), (WAVE, 1, 40), (COPY, 1, 56)], [6, None, 16]),
        # As many came out as went in, but one is the late copy of a former edge, and one is lost.
        ([(COPY, 1, 2), (WAVE, 1, 10), (WAVE, 1, 30), (COPY, 1, 36)], [None, 6]),
        # Edges of another level are no copies.
        ([(WAVE, 1, 0), (COPY, 0, 5)], [None]),
        ([], []),
    ],
)
def test_each_rising_edge_has_its_copy_or_none(seen: list[tuple[int, int, int]], cycles: list[int | None]) -> None:
    assert copy_delays_ns(seen) == [None if one is None else one * CYCLE_NS for one in cycles]


class Slow(Oscilloscope):
    """Its generator ends, and the copies come later still."""

    def __init__(self, states: list[tuple[int, int]]) -> None:
        super().__init__("")
        self.states = states

    def state(self) -> Scope:
        count, left = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return Scope(count, 0, left, 0, 0)


def test_settling_waits_for_the_generator_and_for_late_copies() -> None:
    scope = Slow([(0, 4), (2, 2), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)])
    scope.settle(0, 1)
    assert scope.states == [(8, 0)]


def searched(limit_hz: float, steps: int = 100) -> list[float]:
    """The frequencies that are tried where all up to `limit_hz` are copied."""
    tried: list[float] = []

    def tracked(frequency_hz: float) -> bool:
        tried.append(frequency_hz)
        return frequency_hz <= limit_hz

    bisect(tracked, 2, 400, 0.01, steps)
    return tried


@pytest.mark.parametrize("limit_hz", [2, 3.7, 50, 309.6, 395])
def test_the_search_ends_within_its_resolution_of_the_limit(limit_hz: float) -> None:
    tried = searched(limit_hz)
    found = search_result([(hz, hz <= limit_hz) for hz in tried])
    assert found["untracked_hz"] - found["tracked_hz"] <= 0.01 * found["untracked_hz"]
    # Never twice the same, and no more steps than halving takes.
    assert len(set(tried)) == len(tried) <= 17
    assert searched(limit_hz, 5) == tried[:5]


def test_the_search_goes_no_further_than_its_ends() -> None:
    assert searched(1) == [2]
    everything = searched(1000)
    assert everything[-1] == max(everything) == 400
