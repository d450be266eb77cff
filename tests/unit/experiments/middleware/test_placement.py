"""Which processors each part uses."""

import pytest

from looplab.experiments.middleware.placement import (
    default_cores,
    default_layouts,
    default_loads,
    of_node,
    others,
    shared,
)


@pytest.mark.parametrize(("processors", "expected"), [(1, [0]), (2, [1]), (4, [3]), (40, list(range(30, 40)))])
def test_devices_and_data_have_the_last_quarter(processors: int, expected: list[int]) -> None:
    assert others(processors) == expected


def test_nodes_divide_the_processors_from_the_first_one_on() -> None:
    assert [of_node(number, 4, 40) for number in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_more_cores_than_there_are_begin_again_at_the_first() -> None:
    assert [of_node(number, 1, 2) for number in range(3)] == [[0], [1], [0]]


def test_a_run_knows_when_the_middleware_shares_a_processor() -> None:
    assert not shared(1, 1, 2)
    assert shared(1, 2, 2)
    assert shared(2, 1, 2)


def test_on_40_processors_cores_and_nodes_are_the_published_ones() -> None:
    assert default_cores(40) == [2, 4, 20, 40]
    assert default_layouts(40) == ["1x20-direct", "1x20", "2x10", "5x4", "7x3", "10x2"]


def test_two_processors_still_have_several_nodes() -> None:
    assert default_cores(2) == [1, 2]
    assert default_layouts(2) == ["1x2-direct", "1x2", "2x1", "3x1"]


def test_the_default_loads_are_published_shares() -> None:
    assert default_loads() == ["37.5%", "50%", "62.5%", "75%", "87.5%", "100%", "112.5%"]
