"""From repetitions to run.json: every request has one fate, what is wrong is named, files hold what was counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.simulated_middleware_runs import by_cores, trial

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import Second, Trial, contents, files, judge, live, restarted
from looplab.experiments.middleware.parts import Snapshot
from looplab.experiments.middleware.trial import misplaced

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


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"processor_share": 0.95}, "the devices used 95% of a processor"),
        ({"faults": ["the clock went back"]}, "the clock went back"),
    ],
)
def test_a_repetition_that_counts_for_nothing_says_why(changes: dict[str, Any], why: str) -> None:
    wrong = made(**changes)
    [fault] = wrong.reasons()
    assert fault.startswith("30 devices, 1 core, container, repetition 0: ")
    assert why in fault
    [cell] = contents([wrong, made(repetition=1)], [])["cells"]
    assert not cell["valid"]
    assert contents([made()], [])["cells"][0]["valid"]


def test_services_on_other_processors_are_named() -> None:
    # One that was killed runs on none.
    assert misplaced({"http": {0, 1}, "auth": {0}, "users": set()}, {0}) == ["http"]
    assert treatments(made())["processors of the middleware"][0]
    assert treatments(made(misplaced=["http"]))["processors of the middleware"] == (False, "others: http")


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


def test_services_that_ended_or_went_with_their_node_are_named() -> None:
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


def test_a_cell_without_memory_is_remarked_below_the_table() -> None:
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
