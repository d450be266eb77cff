"""The parameters of middleware and middleware-nodes."""

import os

import pytest

from looplab.errors import EXIT_USAGE, LabError
from looplab.experiments.middleware.cells import Cell
from looplab.experiments.middleware.controller import needs_host
from looplab.experiments.middleware.parameters import read_parameters


def test_every_condition_is_a_cell() -> None:
    p = read_parameters({"DEVICES": "100,200", "CORES": "1", "WHERE": "container,bare", "LOAD_S": "10"})
    assert p.cells == [Cell(container, False, 1, 1, devices) for container in (True, False) for devices in (100, 200)]
    assert needs_host(p)
    assert p.requests == 2 * 7 * 10 * (100 + 200)


def test_a_layout_has_a_balancer_unless_it_is_direct() -> None:
    p = read_parameters({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1-direct,1x1,2x1", "DEVICES": "5"})
    assert p.cells == [Cell(True, False, 1, 1, 5), Cell(True, True, 1, 1, 5), Cell(True, True, 2, 1, 5)]
    assert p.most_nodes == 2
    assert not needs_host(p)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICES", "0"),
        ("CORES", "100000"),
        ("WHERE", "cloud"),
        ("LAYOUTS", "2x1-direct"),
        ("LAYOUTS", "2"),
        ("MIDDLEWARE", "sitewhere"),
        ("DROP_PROBABILITY", "2"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    with pytest.raises(LabError, match=name) as found:
        read_parameters({name: value})
    assert found.value.exit_code == EXIT_USAGE


def test_a_node_larger_than_the_machine_is_refused() -> None:
    cores = min(99, (os.cpu_count() or 1) + 1)
    with pytest.raises(LabError, match="does not fit"):
        read_parameters({"SCENARIO": "middleware-nodes", "LAYOUTS": f"1x{cores}"})
