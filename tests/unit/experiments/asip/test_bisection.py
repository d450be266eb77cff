"""The search for the highest frequency: it ends beside the limit that is there."""

import pytest

from looplab.experiments.asip.bisection import Bisection


def searched(limit_hz: float, low_hz: float = 2, high_hz: float = 400, resolution: float = 0.01) -> list[float]:
    """The frequencies that are tried where all up to `limit_hz` are copied."""
    search, tried = Bisection(low_hz, high_hz, resolution), []
    while (frequency_hz := search.next_hz()) is not None:
        tried.append(frequency_hz)
        search.found(frequency_hz, frequency_hz <= limit_hz)
        assert len(tried) < 100
    return tried


@pytest.mark.parametrize("limit_hz", [2, 3.7, 50, 309.6, 395])
def test_it_ends_within_its_resolution_of_the_limit(limit_hz: float) -> None:
    tried = searched(limit_hz)
    tracked = max(hz for hz in tried if hz <= limit_hz)
    missed = min(hz for hz in tried if hz > limit_hz)
    assert missed - tracked <= 0.01 * missed
    # Never twice the same, and no more steps than halving takes.
    assert len(set(tried)) == len(tried) <= 17


def test_nothing_is_searched_below_the_lowest() -> None:
    assert searched(1) == [2]


def test_the_highest_is_tried_where_everything_is_copied() -> None:
    tried = searched(1000)
    assert tried[-1] == 400
    assert all(hz <= 1000 for hz in tried)
