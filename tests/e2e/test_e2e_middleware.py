"""The experiment middleware on the engine: the real middleware in containers, on the host, and with a dead service."""

import os
import re
import subprocess
import time

import pytest
from support.containers import own_image
from support.e2e_lab import Lab
from support.hardening import judge_container
from support.middleware import bare_metal, check_accounts, kill_service, open_to_users
from support.wire import call

from looplab.errors import EXIT_MACHINE
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="bare metal joins the network of a container, which only root may"
)
SHORT = ("--devices", "20", "--seconds", "3", "--repetitions", "1", "--allow-invalid", "--json")


def listening() -> set[str]:
    """Return the programs that listen on a TCP port of the host."""
    return set(re.findall(r'\(\("([^"]+)"', call("ss", "-ltnpH")))


@needs_root
def test_both_places_answer_and_leave_nothing_on_the_host(lab: Lab) -> None:
    open_to_users(lab)
    words = ("run", "middleware", "--cores", "1", "--where", "container,bare", *SHORT)
    running = lab.start(*words, WARM_UP_S="2")
    running.wait_for("1 core, bare metal")
    # For as long as its load lasts.
    end_s, seen = time.monotonic() + 6, set()
    while time.monotonic() < end_s:
        seen |= listening()
        time.sleep(0.2)
    run = running.ended()
    bare, container = run["cells"]
    assert (bare["container"], container["container"]) == (False, True)
    for cell in (bare, container):
        check_accounts(cell)
        assert cell["succeeded"] == cell["requests"] == 60, cell["failed_by"]
        assert cell["lost"] == 0
        assert cell["server_us"]["n"] > 0
        (trial,) = cell["by_repetition"]
        assert {"users", "auth", "things", "http", "spicedb"} <= set(trial["cpu_s"])
    assert any(t["what"] == "processors of the middleware" and t["verified"] for t in run["treatments"])
    assert not seen & {"spicedb", "auth", "users", "things", "http", "lab-agent"}
    assert not listening() & {"spicedb", "things", "lab-agent"}
    assert not bare_metal()
    folder, stored = lab.newest()
    assert stored == run
    assert isinstance(read_run(folder, EXPERIMENTS), StoredRun)


def test_two_nodes_behind_the_balancer_and_one_dies(own_lab: Lab) -> None:
    parameters = own_lab.root / "compose/experiments/middleware-nodes/params.env"
    parameters.write_text(parameters.read_text().replace("LOAD_PROCESSES=", "LOAD_PROCESSES=2"))
    words = ("run", "middleware-nodes", "--layouts", "2x1", *SHORT)
    running = own_lab.start(*words, WARM_UP_S="2", DEADLINE_MS="2000")
    # All of them run, and the load of three seconds has not begun.
    running.wait_for("waiting for the")
    for service, container in own_lab.containers().items():
        judge_container(service, container)
    running.wait_for("2 nodes x 1 core")
    kill_service(own_lab, "middleware-node-2", "http", wait_s=1.5)
    run = running.ended()
    (cell,) = run["cells"]
    check_accounts(cell)
    assert cell["requests"] == 60
    assert not run["valid"]
    assert any("http of node-2" in why for why in run["invalid_because"]), run["invalid_because"]
    assert cell["balancer"] is True
    # Both processes had devices, and each named its own requests.
    assert run["parameters"]["load_processes"] == 2
    # nginx goes on with the other node.
    assert cell["succeeded"] > 0


def test_who_takes_orders_does_not_start_without_a_token() -> None:
    """A neighbour on the network could stop the middleware otherwise."""
    done = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", own_image("magistrala"), "node"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_MACHINE
    assert "no token" in done.stderr
