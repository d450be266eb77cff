"""A run of middleware: its parameters and processors, and run.json; every request has one fate."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT
from support.simulated_middleware_runs import by_cores, trial

from looplab.errors import UsageError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import Second, Trial, contents, files, judge, live, restarted
from looplab.experiments.middleware.parameters import PARAMETERS
from looplab.experiments.middleware.parts import Snapshot
from looplab.experiments.middleware.placement import default_cores, default_layouts, of_node, others, siblings
from looplab.experiments.middleware.trial import largest, misplaced


def test_every_condition_is_a_cell() -> None:
    p = PARAMETERS.read({"DEVICES": "100,200", "CORES": "1", "WHERE": "container,bare", "LOAD_S": "10"})
    cells = [(container, False, 1, 1, devices) for container in (True, False) for devices in (100, 200)]
    assert p.cells == [LoadCell.keyed(*cell) for cell in cells]
    assert p.requests == 2 * 7 * 10 * (100 + 200)
    # A layout has a balancer unless it is direct.
    p = PARAMETERS.read({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1-direct,1x1,2x1", "DEVICES": "5"})
    assert p.cells == [LoadCell.keyed(True, *layout, 1, 5) for layout in ((False, 1), (True, 1), (True, 2))]
    assert p.most_nodes == 2
    # The limit is measured on most processors, in a container.
    boxes = PARAMETERS.read({"DEVICES": "5", "CORES": "1", "WHERE": "bare,container"})
    layouts = PARAMETERS.read({"SCENARIO": "middleware-nodes", "LAYOUTS": "2x1,1x1,1x1-direct", "DEVICES": "5"})
    assert [largest(one.cells) for one in (boxes, layouts)] == [LoadCell.keyed(True, False, 1, 1, 5)] * 2


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


def test_devices_start_together_as_printed_and_spread_when_corrected() -> None:
    for fidelity, together in (("thesis", True), ("corrected", False)):
        p = PARAMETERS.read({"FIDELITY": fidelity, "DEVICES": "5", "LOAD_S": "2"})
        assert p.plan("n", 5, {"routes": {}, "certificate": ""}, p.seconds).together is together


def test_processors_of_one_core_are_siblings(tmp_path: Path) -> None:
    for number, text in enumerate(("0,2", "1,3", "0,2", "1,3", "4", "5-6", "5-6")):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    assert siblings(tmp_path) == [[0, 2], [1, 3], [5, 6]]
    assert siblings(tmp_path / "cpu4") == []


ONE, TWO = LoadCell.keyed(True, False, 1, 1, 30), LoadCell.keyed(False, False, 1, 2, 60)


def made(cell: LoadCell = ONE, repetition: int = 0, **more: Any) -> Trial:
    return replace(trial(cell, repetition, np.random.default_rng(5 + repetition), by_cores, 1.0), **more)


def treatments(*trials: Trial) -> dict[str, tuple[bool, str]]:
    return {one.what: (one.verified, one.found) for one in judge(trials)}


def test_a_cell_holds_its_repetitions_and_their_sums() -> None:
    trials = [made(TWO, 1), made(ONE), made(TWO, 0)]
    first, second = contents(trials, [])["cells"]
    assert (first["container"], second["container"]) == (False, True)
    assert [one["repetition"] for one in first["by_repetition"]] == [0, 1]
    assert first["requests"] == first["succeeded"] + first["failed"] + first["unfinished"] == 480
    assert first["response_us"]["n"] == 480
    assert first["cpu_s_per_request"] == pytest.approx(0.0015)
    # What the table derives is in run.json, too.
    assert (first["processed_per_s"], first["cpu_per_request"]) == (pytest.approx(120), pytest.approx(1500))
    # Devices are not the middleware.
    assert first["memory_bytes_at_start"] == 2 * 50 * 2**20
    assert (first["posted"], first["stored"], first["lost"]) == (480, 478, 2)


def test_what_was_not_read_back_is_unknown() -> None:
    [cell] = contents([made(repetition=0), made(repetition=1, read_back=None)], [])["cells"]
    assert [cell[name] for name in ("posted", "stored", "lost", "duplicates")] == [None] * 4
    assert cell["by_repetition"][0]["posted"] == 120
    assert treatments(made(), made(repetition=1, read_back=None))["database read back"] == (False, "1 of 2 repetitions")


def test_requests_that_succeeded_too_late_are_not_processed() -> None:
    [cell] = contents([made(processed=100)], [])["cells"]
    assert (cell["succeeded"], cell["processed"]) == (120, 100)
    # What it cost was spent on these alone.
    assert cell["cpu_s_per_request"] == pytest.approx(0.0015 * 120 / 100)


def test_a_repetition_that_counts_for_nothing_says_why() -> None:
    wrong = made(processor_share=0.95, faults=["the clock went back"])
    beginning = "30 devices, 1 core, container, repetition 0: "
    assert [why.startswith(beginning) for why in wrong.reasons()] == [True, True]
    for why in ("the devices used 95% of a processor", "the clock went back"):
        assert why in " ".join(wrong.reasons())
    assert [contents(trials, [])["cells"][0]["valid"] for trials in ([wrong, made(repetition=1)], [made()])] == [0, 1]


def test_a_warm_up_that_had_not_ended_is_told() -> None:
    # A request costs 1500 us in the load.
    warm = made(warm_up=[Second(succeeded=10, cpu_us=60_000 - 9000 * at) for at in range(6)])
    assert treatments(warm)["warm-up"][0]
    cold = made(warm_up=[Second(succeeded=10, cpu_us=60_000 - 5000 * at) for at in range(6)])
    assert treatments(cold)["warm-up"] == (False, "not ended in 1 of 1 repetitions")
    assert not next(one for one in judge([cold]) if one.what == "warm-up").required


def test_a_middleware_without_the_memory_to_start_is_a_result() -> None:
    starved = Trial(cell=ONE, repetition=0, started=False, loaded=[Second(due=60)], out_of_memory=True)
    assert all(one.verified or not one.required for one in judge([starved]))
    assert treatments(starved, made(TWO))["database read back"] == (True, "every repetition")
    [cell] = contents([starved], [])["cells"]
    assert (cell["valid"], cell["out_of_memory"], cell["unfinished"], cell["stored"]) == (True, True, 60, None)


def test_services_that_ended_or_run_elsewhere_are_named() -> None:
    # One that was killed runs on no processor.
    assert misplaced({"http": {0, 1}, "auth": {0}, "users": set()}, {0}) == ["http"]
    assert treatments(made())["processors of the middleware"][0]
    assert treatments(made(misplaced=["http"]))["processors of the middleware"] == (False, "others: http")
    service = {"cpu_s": 1.0, "memory_bytes": 1, "processors": [0]}
    running, ended = {**service, "ended": None}, {**service, "ended": 7}
    snapshot = Snapshot()
    for number, services in enumerate(({"http": running}, {}, {"http": ended})):
        facts = {"services": services, "killed_for_memory": 0, "durations_us": {}}
        snapshot.add(f"node-{number}", ["http"], facts)
    assert snapshot.dead == ["http of node-1: gone", "http of node-2: exit code 7"]


def test_files_hold_a_line_a_second_and_a_line_a_bucket() -> None:
    trials = [made(), made(TWO)]
    samples, histograms = files(None, trials)
    lines = list(samples.lines({}, range(1, 2)))
    assert [line.split(",")[:7] for line in lines] == [["0", "0", "1", "2", "60", "0", str(at)] for at in range(2)]
    assert all(len(line.split(",")) == len(samples.header.split(",")) for line in lines)
    held = [line.split(",") for line in histograms.lines({}, range(2))]
    assert {line[6] for line in held} == {"response", "sent_response", "server"}
    counted = sum(int(line[8]) for line in held if line[6] == "response")
    assert counted == sum(trial.counts["succeeded"] for trial in trials)


def test_the_live_state_is_that_of_the_running_cell() -> None:
    state = live(1000, [made(), made(TWO), made(repetition=1)])
    [cell] = state["cells"]
    assert (cell["devices"], cell["requests"], state["planned"]) == (30, 240, 1000)
    assert live(1000, [])["cells"] == []
    run = contents([made(), made(LoadCell.keyed(True, True, 2, 1, 150), out_of_memory=True)], [])
    assert list(LoadCell.remarks(run)) == ["150 devices, 2 nodes x 1 core, balancer: out of memory."]


def test_a_restarted_data_service_is_named() -> None:
    def scan(postgres: list[int], nats: list[int]) -> dict[str, Any]:
        found = {"postgres": postgres, "nats": nats}
        roles = {name: [{"pid": pid, "started_ticks": pid * 10} for pid in pids] for name, pids in found.items()}
        return {"roles": {name: {"processes": each} for name, each in roles.items()}}

    # Connections come and go; the first process stays.
    assert restarted(scan([7, 8], [9]), scan([7, 20, 21], [9]), ["postgres", "nats"]) == []
    again = restarted(scan([7, 8], [9]), scan([30], []), ["postgres", "nats"])
    assert again == ["postgres: started again", "nats: started again"]
