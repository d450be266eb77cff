"""The parameters of middleware and middleware-nodes."""

import os

import pytest
from support.places import ROOT

from looplab.errors import LabError, UsageError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.controller import needs_host
from looplab.experiments.middleware.limit import largest
from looplab.experiments.middleware.parameters import read_parameters
from looplab.lab.run_options import variables


def test_every_condition_is_a_cell() -> None:
    p = read_parameters({"DEVICES": "100,200", "CORES": "1", "WHERE": "container,bare", "LOAD_S": "10"})
    assert p.cells == [
        LoadCell.keyed(container, False, 1, 1, devices) for container in (True, False) for devices in (100, 200)
    ]
    assert needs_host(p)
    assert p.requests == 2 * 7 * 10 * (100 + 200)


def test_a_layout_has_a_balancer_unless_it_is_direct() -> None:
    p = read_parameters({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1-direct,1x1,2x1", "DEVICES": "5"})
    assert p.cells == [
        LoadCell.keyed(True, False, 1, 1, 5),
        LoadCell.keyed(True, True, 1, 1, 5),
        LoadCell.keyed(True, True, 2, 1, 5),
    ]
    assert p.most_nodes == 2
    assert not needs_host(p)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICES", "0"),
        ("DEVICES", "0%"),
        ("DEVICES", "100,50%"),
        ("LOAD_HOSTS", "192.0.2.7:x"),
        ("LOAD_HOSTS", "192.0.2.7"),
        ("CORES", "100000"),
        ("LAYOUTS", "2x1-direct"),
        ("LAYOUTS", "2"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        read_parameters({name: value})


def test_devices_on_another_host_need_the_balancer_and_a_secret() -> None:
    nodes = {"SCENARIO": "middleware-nodes", "LOAD_HOSTS": "192.0.2.7,192.0.2.7:9211"}
    with pytest.raises(LabError, match="LOAD_TOKEN"):
        read_parameters({**nodes, "LAYOUTS": "1x1"})
    with pytest.raises(LabError, match="balancer"):
        read_parameters({**nodes, "LAYOUTS": "1x1-direct,1x1", "LOAD_TOKEN": "secret"})
    p = read_parameters({**nodes, "LAYOUTS": "1x1,2x1", "LOAD_TOKEN": "secret"})
    assert p.load_hosts == ("192.0.2.7", "192.0.2.7:9211")
    assert "secret" not in str(p.as_json())


def test_a_node_larger_than_the_machine_is_refused() -> None:
    cores = min(99, (os.cpu_count() or 1) + 1)
    with pytest.raises(LabError, match="does not fit"):
        read_parameters({"SCENARIO": "middleware-nodes", "LAYOUTS": f"1x{cores}"})


def test_shares_become_devices_once_the_limit_is_known() -> None:
    p = read_parameters({"DEVICES": "37.5%,100%", "CORES": "1", "WHERE": "container", "PERIOD_MS": "2000"})
    assert [cell.devices for cell in p.cells] == [0, 0]
    found = p.at_limit(200.04)
    assert (found.devices, found.limit_per_s) == ((150, 400), 200.0)
    assert found.samples == p.samples
    # The command that repeats the run names its devices.
    assert read_parameters({"DEVICES": "150,400"}).shares == ()


def test_a_limit_that_makes_two_loads_one_is_refused() -> None:
    with pytest.raises(UsageError, match="not different loads"):
        read_parameters({"DEVICES": "50%,51%"}).at_limit(10)


def test_the_limit_is_measured_on_most_processors_in_a_container() -> None:
    cells = read_parameters({"DEVICES": "5", "CORES": "1", "WHERE": "bare,container"}).cells
    assert largest(cells) == LoadCell.keyed(True, False, 1, 1, 5)
    layouts = {"SCENARIO": "middleware-nodes", "LAYOUTS": "2x1,1x1,1x1-direct", "DEVICES": "5"}
    assert largest(read_parameters(layouts).cells) == LoadCell.keyed(True, False, 1, 1, 5)


def test_full_is_the_published_length() -> None:
    full = variables(ROOT, ["middleware"], {"FULL": "on", "CORES": "1"}, quick=False)
    p = read_parameters({"SCENARIO": "middleware", **full})
    assert (p.seconds, p.repetitions, p.cores) == (600, 7, (1,))
    for names, quick in ((["middleware"], True), (["scenario0"], False)):
        with pytest.raises(LabError, match="--full"):
            variables(ROOT, names, {"FULL": "on"}, quick=quick)
