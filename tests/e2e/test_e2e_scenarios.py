"""All nine scenarios, by plain Compose and by ./lab, against the published table of treatments."""

import json
import time
from typing import Any

import pytest
from support.containers import docker
from support.e2e_lab import Lab
from support.hardening import judge_container
from support.places import ROOT
from support.run_checks import check_run, total, treatments
from support.waiting import until

from looplab.lab.scenarios import chosen

# As published: tests/unit/compose compares them with the thesis's table.
PUBLISHED: dict[str, Any] = {one.name: one.parameters({}) for one in chosen(ROOT, ["all"])}

LEGS = (
    "answers", "bridge's subscription to request/", "controller's subscription to answer/",
    "publisher's subscription to request/",
)  # fmt: skip


def check_as_published(run: dict[str, Any], asked: Any) -> None:
    """The treatments of the published table, found on the live processes."""
    parameters, found = run["parameters"], treatments(run)
    assert run["scenario"] == asked.scenario
    assert run["valid"], run["invalid_because"]
    assert (parameters["command"], parameters["load"]) == (asked.command, asked.load)
    assert tuple(parameters["qos"]) == asked.qos
    for load in ("stress", "flood"):
        assert found[f"{load} load"]["found"] == ("running" if asked.load == load else "not running")
    for role, priority in (("broker", asked.priority_broker), ("controller", asked.priority_controller)):
        # As published: the flags permit priority and set none.
        assert found[f"{role} scheduling policy"]["found"] == "SCHED_OTHER"
        assert (f"{role} may use real-time priority" in found) == (priority > 0)
        if priority:
            assert found[f"{role} may use real-time priority"]["verified"]
            assert found[f"{role} rtprio limit"]["wanted"] == str(priority)
        assert found[f"{role} TCP_NODELAY"]["found"] == "off"
    assert found["bridge TCP_NODELAY"]["found"] == "off"
    assert found["robot framing"]["found"] == "burst"
    legs = {what: one["found"] for what, one in found.items() if "subscription" in what or what == "answers"}
    assert legs == dict.fromkeys(LEGS, "QoS 0")
    assert found["controller connections"]["found"] == "2"
    for role in ("broker", "controller", "bridge"):
        assert found[f"{role} process"]["found"] == "the same in every scan"
    assert ("STRESS_CPU" in parameters["load_settings"]) == (asked.load == "stress")
    for cell in run["cells"]:
        assert set(cell["cpu_wait_us"]) == set(cell["cpu_runs"]) == {"broker", "controller", "bridge", "robot"}
        if asked.load == "stress":
            assert cell["load"]["stress_cpu_s"] > 0
        if asked.load == "flood":
            assert cell["load"]["broker_publish_per_s"] > 60
        if asked.command == "T":
            # Wire, sensor and USB frames take milliseconds; an emulated answer takes none.
            assert cell["R_us"]["p50"] > 2000
            # Burst framing has no numbers: if a stall makes the bridge give a request up, its answer is taken for that
            # of a later request, which then seems to be answered at once. Without one, no answer is that fast.
            assert cell["R_us"]["min"] > 2000 or run["bridge"]["counts"]["timeouts"] > 0
        elif asked.load == "none":
            assert cell["R_us"]["p50"] < 1000
    # The kernel stamps in containers as well; for how many messages depends on what this machine merges.
    timed = sum(cell["ledger_us"]["network"]["n"] for cell in run["cells"])
    assert timed > 0 or asked.load != "none"
    # Bursts may merge answers, a load may delay them until the bridge gives requests up, the more the busier this
    # machine is: how many is a result. A broken lab answers none, or loses what nobody merged or gave up.
    assert total(run, "answered") > 0
    known = sum(total(run, fate) for fate in ("answered", "late", "robot_errors")) + run["bridge"]["counts"]["merged"]
    assert known >= 0.5 * total(run, "sent")
    assert run["bridge"]["counts"]["requests"] >= total(run, "answered")


@pytest.fixture(scope="module")
def all_runs(session_lab: Lab) -> dict[str, dict[str, Any]]:
    """./lab run all --quick --json, once for all tests of this file; a second attempt measures again."""
    session_lab.forget_runs()
    done = session_lab.run("run", "all", "--quick", "--messages", "60", "--json", timeout_s=400)
    session_lab.down()
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert [run["scenario"] for run in document["runs"]] == list(PUBLISHED)
    return {run["scenario"]: run for run in document["runs"]}


@pytest.mark.parametrize("name", PUBLISHED)
def test_run_all_is_as_published(session_lab: Lab, all_runs: dict[str, dict[str, Any]], name: str) -> None:
    run = all_runs[name]
    folder = session_lab.root / "results" / run["run_id"]
    assert json.loads((folder / "run.json").read_text()) == run
    check_run(folder, run)
    check_as_published(run, PUBLISHED[name])


# The one with most treatments; ./lab starts all nine by the same profiles above.
def test_plain_compose_runs_by_itself(lab: Lab) -> None:
    name = "scenario5"
    asked = PUBLISHED[name]
    lab.compose(
        "--profile", name, "up", "--detach",
        INTERVALS_MS="20", MESSAGES="50", REPETITIONS="2", WARMUP_MESSAGES="5", code=0,
    )  # fmt: skip
    containers = lab.containers(running=False)
    # The controller ends by itself: it is looked at first.
    first = sorted(containers, key=lambda service: service != name)
    seen = {service: judge_container(service, containers[service]) for service in first}
    observed = {"treatments", "bridge", "robot", "exporter", "prometheus", "broker-prioritised", "stress", name}
    assert observed <= {service for service, processes in seen.items() if processes}
    assert "prepare" in seen
    assert lab.wait_for_end(name) == 0
    folder, run = lab.newest()
    check_run(folder, run)
    check_as_published(run, asked)
    logs = lab.compose("logs", "--no-log-prefix", name).stdout
    assert f"Kept in results/{run['run_id']}" in logs
    assert "VALID" in logs
    assert "| Pages: " in lab.compose("logs", "prepare").stdout
    # The run is over and its metrics are still served. Its load ends with it: it was there in every cell.
    until(lambda: asked.load not in lab.containers(), f"the end of {asked.load}", 10)
    found = treatments(run)
    assert found[f"{asked.load} load"]["verified"]
    assert found[f"{asked.load} in every cell"]["verified"]
    # A restart policy would bring it back within a second.
    time.sleep(3)
    assert {"prometheus", "exporter"} <= lab.containers().keys()
    assert asked.load not in lab.containers()
    assert f" {asked.load}" not in docker("top", lab.container("treatments"), "-eo", "comm,pid")
