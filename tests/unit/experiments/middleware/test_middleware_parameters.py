"""The parameters of middleware and middleware-nodes, and the processors of each part."""

import os
import subprocess
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import UsageError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.parameters import PARAMETERS
from looplab.experiments.middleware.placement import default_cores, default_layouts, of_node, others, siblings
from looplab.experiments.middleware.trial import largest


def test_every_condition_is_a_cell() -> None:
    p = PARAMETERS.read({"DEVICES": "100,200", "CORES": "1", "WHERE": "container,bare", "LOAD_S": "10"})
    cells = [(container, False, 1, 1, devices) for container in (True, False) for devices in (100, 200)]
    assert p.cells == [LoadCell.keyed(*cell) for cell in cells]
    assert p.requests == 2 * 7 * 10 * (100 + 200)
    # A layout has a balancer unless it is direct.
    p = PARAMETERS.read({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1-direct,1x1,2x1", "DEVICES": "5"})
    assert p.cells == [LoadCell.keyed(True, *layout, 1, 5) for layout in ((False, 1), (True, 1), (True, 2))]
    assert p.most_nodes == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICES", "0"), ("DEVICES", "0%"), ("DEVICES", "100,50%"),
        ("CORES", "100000"), ("LAYOUTS", "2x1-direct"), ("LAYOUTS", "2"),
        # A node larger than the machine.
        ("LAYOUTS", f"1x{min(99, (os.cpu_count() or 1) + 1)}"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(name: str, value: str) -> None:
    scenario = "middleware-nodes" if name == "LAYOUTS" else "middleware"
    with pytest.raises(UsageError, match=name):
        PARAMETERS.read({"SCENARIO": scenario, name: value})


def test_shares_become_devices_once_the_limit_is_known() -> None:
    p = PARAMETERS.read({"DEVICES": "37.5%,100%", "CORES": "1", "WHERE": "container", "PERIOD_MS": "2000"})
    assert [cell.devices for cell in p.cells] == [0, 0]
    found = p.at_limit(200.04)
    assert (found.devices, found.limit_per_s) == ((150, 400), 200.0)
    assert found.samples == p.samples
    # The command that repeats the run names its devices.
    assert PARAMETERS.read({"DEVICES": "150,400"}).shares == ()
    with pytest.raises(UsageError, match="not different loads"):
        PARAMETERS.read({"DEVICES": "50%,51%"}).at_limit(10)


def test_the_limit_is_measured_on_most_processors_in_a_container() -> None:
    cells = PARAMETERS.read({"DEVICES": "5", "CORES": "1", "WHERE": "bare,container"}).cells
    assert largest(cells) == LoadCell.keyed(True, False, 1, 1, 5)
    layouts = {"SCENARIO": "middleware-nodes", "LAYOUTS": "2x1,1x1,1x1-direct", "DEVICES": "5"}
    assert largest(PARAMETERS.read(layouts).cells) == LoadCell.keyed(True, False, 1, 1, 5)


def test_nodes_divide_the_processors_and_devices_and_data_have_the_last_quarter() -> None:
    assert [others(range(count)) for count in (1, 2, 4, 40)] == [[0], [1], [3], [*range(30, 40)]]
    assert [of_node(number, 4, range(40)) for number in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # More cores than there are begin again at the first.
    assert [of_node(number, 1, range(2)) for number in range(3)] == [[0], [1], [0]]
    # A container that may not use processors 0 and 3.
    assert (of_node(1, 2, [1, 2, 4]), others([1, 2, 4])) == ([1, 4], [4])


@pytest.mark.parametrize("processor", sorted(os.sched_getaffinity(0)))
def test_a_data_service_keeps_to_processors_that_its_container_may_use(tmp_path: Path, processor: int) -> None:
    service = tmp_path / "redis-server"
    service.write_text("#!/bin/sh\nexec taskset --cpu-list --pid $$\n")
    service.chmod(0o755)
    command = ("taskset", "--cpu-list", str(processor), "sh", str(ROOT / "images/magistrala/start-part"), "redis")
    environment = {**os.environ, "MIDDLEWARE": "devicehive", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith(f"affinity list: {processor}")


def test_the_defaults_are_shares_of_the_published_machine() -> None:
    assert (default_cores(40), default_cores(2)) == ([2, 4, 20, 40], [1, 2])
    assert default_layouts(40) == ["1x20-direct", "1x20", "2x10", "5x4", "7x3", "10x2"]
    assert default_layouts(2) == ["1x2-direct", "1x2", "2x1", "3x1"]
    assert PARAMETERS.read({}).shares == (37.5, 50, 62.5, 75, 87.5, 100, 112)
    # One node processes at most three quarters of what the published loads ask of five.
    assert PARAMETERS.read({"SCENARIO": "middleware-nodes"}).shares == (57.1, 76.2, 95.2, 114, 133, 152, 171)


@pytest.mark.parametrize("fidelity", ["thesis", "corrected"])
def test_fidelity_sets_warm_up_and_start(fidelity: str) -> None:
    p = PARAMETERS.read({"FIDELITY": fidelity, "DEVICES": "5", "WARM_UP_S": "9", "LOAD_S": "2"})
    way = {"routes": {}, "certificate": ""}
    printed = fidelity == "thesis"
    assert (p.warm_up, p.start) == (("three", "together") if printed else ("load", "spread"))
    assert p.plan("n", 5, way, p.seconds).together is printed
    # Each factor is settable alone, and only a warm-up of the load's kind takes its time.
    other = PARAMETERS.read({"FIDELITY": fidelity, "DEVICES": "5", "WARM_UP_S": "9", "LOAD_S": "2", "WARM_UP": "load"})
    assert other.start == p.start
    assert other.total_s - p.total_s == (9 * len(p.cells) * p.repetitions if printed else 0)


def test_processors_of_one_core_are_siblings(tmp_path: Path) -> None:
    for number, text in enumerate(("0,2", "1,3", "0,2", "1,3", "4", "5-6", "5-6")):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    assert siblings(tmp_path) == [[0, 2], [1, 3], [5, 6]]
    assert siblings(tmp_path / "cpu4") == []
