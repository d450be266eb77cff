"""Faults and bad input at the real middleware: every request keeps exactly one fate, and what died is named."""

import contextlib
import http.client
import os
import socket
import ssl
import subprocess
import threading
import time
from typing import Any

import pytest
from support.containers import docker
from support.e2e_lab import Background, Lab
from support.middleware import bare_metal, check_accounts, exhaust_memory, kill_service, open_to_users
from support.waiting import until

from looplab.experiments.middleware.agent.balancer import PORT

pytestmark = pytest.mark.flag("LAB_MIDDLEWARE_FAULTS")
# What most runs have; the last of an option given twice counts.
ONE_CORE = "middleware --cores 1 --where container --devices 20 --seconds 5 --repetitions 1 --json"
NODES = "middleware-nodes --layouts 1x1 --devices 20 --seconds 5 --repetitions 1 --json"
PARTS = {
    **dict.fromkeys(("spicedb", "auth", "users", "things", "http"), "middleware-node-1"),
    **{name: f"middleware-{name}" for name in ("postgres", "nats", "redis", "writer")},
}


def start(lab: Lab, words: str, until_it_says: str, **variables: str) -> Background:
    """A run in the background that has said so; INVALID ones are allowed."""
    running = lab.start("run", *words.split(), "--allow-invalid", **variables)
    running.wait_for(until_it_says)
    return running


# A run that starts and ends slowly.
END_S = 540.0


def only_trial(run: dict[str, Any]) -> dict[str, Any]:
    """The only repetition of the only cell, its accounts checked."""
    (cell,) = run["cells"]
    (trial,) = cell["by_repetition"]
    check_accounts(trial)
    return dict(trial)


def test_each_killed_service_is_named(lab: Lab) -> None:
    words = f"{ONE_CORE} --repetitions {len(PARTS)}"
    running = start(lab, words, "0%", DEADLINE_MS="2000")

    def repetitions() -> int:
        # A line of each second, below the columns' names.
        return sum(path.read_text().count("\n") for path in (lab.root / "results").rglob("samples.csv")) // 5

    for number, (service, part) in enumerate(PARTS.items()):
        # Progress is printed once in ten seconds at most, a repetition is on disk when it has ended.
        until(lambda wanted=number: repetitions() == wanted, f"repetition {number}", 60)
        # A repetition lasts for 6 s, 5 of them the load.
        kill_service(lab, part, service, after="http")
    run = running.ended(0, END_S)
    (cell,) = run["cells"]
    for (service, _part), trial in zip(PARTS.items(), cell["by_repetition"], strict=True):
        check_accounts(trial)
        assert any(service in name for name in trial["dead"]), (service, trial["dead"])
    assert not run["valid"]


def test_bad_input_at_the_balancer_changes_no_count(lab: Lab) -> None:
    running = start(lab, NODES, "1 core, balancer")
    balancer = lab.container("middleware-balancer")
    host = docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", balancer)
    context = ssl._create_unverified_context()
    statuses: dict[str, int] = {}

    def ask(what: str, headers: dict[str, str], body: bytes) -> int:
        connection = http.client.HTTPSConnection(host, PORT, context=context, timeout=20)
        try:
            connection.request("POST", "/channels/none/messages", body, headers)
            statuses[what] = connection.getresponse().status
        except OSError:
            statuses[what] = 0
        finally:
            connection.close()
        return statuses[what]

    until(lambda: ask("no key", {}, b"[]"), "the balancer", 60)
    ask("wrong key", {"Authorization": "Thing wrong", "Content-Type": "application/senml+json"}, b'[{"n":"a","v":1}]')
    ask("10 MB", {"Authorization": "Thing wrong"}, b"x" * 10_000_000)
    for _ in range(20):
        with contextlib.suppress(OSError), socket.create_connection((host, PORT), 5) as one:
            one.sendall(os.urandom(50_000))
    run = running.ended(0, END_S)
    assert 400 <= statuses["no key"] < 600
    assert statuses["wrong key"] in (400, 401, 403)
    assert statuses["10 MB"] in (0, 413)
    (cell,) = run["cells"]
    check_accounts(cell)
    assert cell["succeeded"] == cell["requests"] == 100, cell["failed_by"]
    assert run["valid"], run["invalid_because"]


def test_a_stopped_database_loses_acknowledged_messages(lab: Lab) -> None:
    running = start(lab, f"{ONE_CORE} --seconds 20", "1 core, container")
    kill_service(lab, "middleware-postgres", "postgres", after="postgres", number=19)
    threading.Timer(10, kill_service, (lab, "middleware-postgres", "postgres"), {"number": 18, "wait_s": 0}).start()
    assert only_trial(running.ended(0, END_S))["posted"] is not None


def test_a_full_disk_of_the_database_counts_what_is_lost(lab: Lab) -> None:
    compose = lab.root / "compose/experiments/middleware/compose.yaml"
    before = "command: [postgres], "
    assert compose.read_text().count(before) == 1
    small = f'{before}tmpfs: ["/tmp:mode=1777", "/data:size=400m,uid=10021"], '
    compose.write_text(compose.read_text().replace(before, small))
    running = start(lab, f"{ONE_CORE} --devices 60 --seconds 20", "1 core, container")
    container = lab.container("middleware-postgres")
    time.sleep(8)
    fill = ["docker", "exec", container, "sh", "-c", "cat /dev/zero >/data/full"]
    assert "No space left" in subprocess.run(fill, capture_output=True, text=True, check=False).stderr
    trial = only_trial(running.ended(0, END_S))
    if trial["posted"] is None:
        assert any("postgres" in name for name in trial["dead"])
    else:
        assert trial["lost"] > 0, trial


def test_too_few_file_descriptors_fail_requests_and_no_account(own_lab: Lab) -> None:
    compose = own_lab.root / "compose/experiments/middleware/compose.yaml"
    compose.write_text(compose.read_text().replace("nofile: 20000", "nofile: 150"))
    trial = only_trial(start(own_lab, f"{ONE_CORE} --devices 100", "1 core, container").ended(0, END_S))
    assert trial["requests"] == 500
    assert trial["failed"] + trial["unfinished"] > 0, trial["failed_by"]


def test_to_run_out_of_memory_is_a_result(lab: Lab) -> None:
    running = start(lab, ONE_CORE, "1 core, container", DEADLINE_MS="2000", MEMORY_LIMIT_MB="400")
    exhaust_memory(lab, "middleware-node-1", "http", megabytes=400)
    run = running.ended(0, END_S)
    trial = only_trial(run)
    assert run["cells"][0]["out_of_memory"] is True, trial
    assert any("http" in name for name in trial["dead"]), trial["dead"]
    assert trial["invalid_because"] == []
    assert trial["failed"] + trial["unfinished"] > 0


def test_bare_metal_ends_with_a_lab_that_is_killed(lab: Lab) -> None:
    open_to_users(lab)
    running = start(lab, ONE_CORE.replace("container", "bare"), "1 core, bare metal")
    until(bare_metal, "bare metal", 60)
    running.process.kill()
    until(lambda: not bare_metal(), "the end of bare metal", 30)
