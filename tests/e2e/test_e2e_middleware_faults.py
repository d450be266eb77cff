"""Faults and bad input at the real middleware: every request keeps exactly one fate, and what died is named."""

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from typing import Any

import pytest
from support.e2e_lab import Background, Lab
from support.middleware import bare_metal, exhaust_memory, kill_service, load_host
from support.ports import free_port
from support.waiting import until

pytestmark = pytest.mark.flag("LAB_MIDDLEWARE_FAULTS")
SHORT = ("--devices", "20", "--seconds", "5", "--allow-invalid", "--json")
PARTS = {
    **dict.fromkeys(("spicedb", "auth", "users", "things", "http"), "middleware-node-1"),
    **{name: f"middleware-{name}" for name in ("postgres", "nats", "redis", "writer")},
}


def ended(running: Background) -> dict[str, Any]:
    code, output, progress = running.finish(540)
    assert code == 0, progress
    found: dict[str, Any] = json.loads(output)["runs"][0]
    return found


def check_accounts(trial: dict[str, Any]) -> None:
    assert trial["requests"] == trial["succeeded"] + trial["failed"] + trial["unfinished"]
    if trial["posted"] is not None:
        assert trial["posted"] == trial["stored"] + trial["lost"] + trial["duplicates"]


def test_each_killed_service_is_named(lab: Lab) -> None:
    running = lab.start(
        *("run", "middleware", "--cores", "1", "--where", "container", *SHORT, "--repetitions", str(len(PARTS))),
        WARM_UP_S="3",
        DEADLINE_MS="2000",
    )
    for number, (service, part) in enumerate(PARTS.items()):
        running.wait_for(f"{round(100 * number / len(PARTS))}%")
        kill_service(lab, part, service, after="http")
    run = ended(running)
    (cell,) = run["cells"]
    for (service, _part), trial in zip(PARTS.items(), cell["by_repetition"], strict=True):
        check_accounts(trial)
        assert any(service in name for name in trial["dead"]), (service, trial["dead"])
    assert not run["valid"]


def test_bad_input_at_the_balancer_changes_no_count(lab: Lab) -> None:
    port = free_port()
    running = lab.start(
        *("run", "middleware-nodes", "--layouts", "1x1", *SHORT, "--repetitions", "1"),
        WARM_UP_S="4",
        LAB_BALANCER_PORT=str(port),
    )
    running.wait_for("1 core, balancer")
    context = ssl._create_unverified_context()
    statuses: dict[str, int] = {}

    def ask(what: str, headers: dict[str, str], body: bytes) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
        try:
            connection.request("POST", "/channels/none/messages", body, headers)
            statuses[what] = connection.getresponse().status
        except OSError:
            statuses[what] = 0
        finally:
            connection.close()
        return statuses[what]

    # The engine takes connections before nginx does.
    until(lambda: ask("no key", {}, b"[]"), "the balancer", 60)
    ask("wrong key", {"Authorization": "Thing wrong", "Content-Type": "application/senml+json"}, b'[{"n":"a","v":1}]')
    ask("10 MB", {"Authorization": "Thing wrong"}, b"x" * 10_000_000)
    for _ in range(20):
        fuzz(port, os.urandom(50_000))
    run = ended(running)
    assert 400 <= statuses["no key"] < 600
    assert statuses["wrong key"] in (400, 401, 403)
    assert statuses["10 MB"] in (0, 413)
    (cell,) = run["cells"]
    check_accounts(cell)
    assert cell["succeeded"] == cell["requests"] == 100, cell["failed_by"]
    assert run["valid"], run["invalid_because"]


def test_tokens_that_expire_are_refreshed(lab: Lab) -> None:
    words = ("run", "middleware", "--cores", "1", "--where", "container", *SHORT, "--repetitions", "1")
    run = json.loads(lab.run(*words, TOKEN_LIFE_S="10", DROP_PROBABILITY="0.5").stdout)["runs"][0]
    (trial,) = run["cells"][0]["by_repetition"]
    check_accounts(trial)
    assert trial["refreshes"] > 0
    assert trial["succeeded"] == trial["requests"], trial["failed_by"]


def test_a_stopped_database_loses_acknowledged_messages(lab: Lab) -> None:
    running = lab.start(
        *("run", "middleware", "--cores", "1", "--where", "container", "--devices", "20", "--seconds", "20"),
        *("--repetitions", "1", "--allow-invalid", "--json"),
        WARM_UP_S="3",
    )
    running.wait_for("1 core, container")
    kill_service(lab, "middleware-postgres", "postgres", after="postgres", number=19)
    threading.Timer(10, kill_service, (lab, "middleware-postgres", "postgres"), {"number": 18, "wait_s": 0}).start()
    run = ended(running)
    (trial,) = run["cells"][0]["by_repetition"]
    check_accounts(trial)
    assert trial["posted"] is not None


def test_devices_refuse_a_certificate_that_has_expired(lab: Lab) -> None:
    run = one_run(
        lab.run(
            *("run", "middleware-nodes", "--layouts", "1x1", "--devices", "20", "--seconds", "20"),
            *("--repetitions", "1", "--allow-invalid", "--json"),
            WARM_UP_S="3",
            DROP_PROBABILITY="0.5",
            CERTIFICATE_LIFE_S="12",
            LAB_BALANCER_PORT=str(free_port()),
        ).stdout
    )
    (trial,) = run["cells"][0]["by_repetition"]
    check_accounts(trial)
    assert trial["succeeded"] > 0
    assert set(trial["failed_by"]) == {"authorise_tls"}
    assert trial["failed_by"]["authorise_tls"] == trial["failed"] > 0


def test_a_full_disk_of_the_database_counts_what_is_lost(lab: Lab) -> None:
    compose = lab.root / "compose/experiments/middleware/compose.yaml"
    before = "      service: postgres\n    profiles: [middleware]\n"
    assert compose.read_text().count(before) == 1
    small = before + '    tmpfs: ["/tmp:mode=1777", "/data:size=400m,uid=10021"]\n'
    compose.write_text(compose.read_text().replace(before, small))
    running = lab.start(
        *("run", "middleware", "--cores", "1", "--where", "container", "--devices", "60", "--seconds", "20"),
        *("--repetitions", "1", "--allow-invalid", "--json"),
        WARM_UP_S="3",
    )
    running.wait_for("1 core, container")
    container = lab.container("middleware-postgres")
    time.sleep(8)
    fill = subprocess.run(
        ["docker", "exec", container, "sh", "-c", "cat /dev/zero >/data/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No space left" in fill.stderr
    (trial,) = ended(running)["cells"][0]["by_repetition"]
    check_accounts(trial)
    if trial["posted"] is None:
        assert any("postgres" in name for name in trial["dead"])
    else:
        assert trial["lost"] > 0, trial


def test_too_few_file_descriptors_fail_requests_and_no_account(lab: Lab) -> None:
    words = ("run", "middleware", "--cores", "1", "--where", "container", "--devices", "100", "--seconds", "5")
    done = lab.run(*words, "--repetitions", "1", "--allow-invalid", "--json", WARM_UP_S="3", MIDDLEWARE_FILES="150")
    (trial,) = one_run(done.stdout)["cells"][0]["by_repetition"]
    check_accounts(trial)
    assert trial["requests"] == 500
    assert trial["failed"] + trial["unfinished"] > 0, trial["failed_by"]


def test_a_node_with_2_gb_of_memory_serves(lab: Lab) -> None:
    words = ("run", "middleware", "--cores", "1", "--where", "container", *SHORT, "--repetitions", "1")
    (cell,) = one_run(lab.run(*words, WARM_UP_S="3", MEMORY_LIMIT_MB="2000").stdout)["cells"]
    (trial,) = cell["by_repetition"]
    check_accounts(trial)
    assert cell["out_of_memory"] is False
    assert trial["succeeded"] == trial["requests"], trial["failed_by"]


def test_to_run_out_of_memory_is_a_result(lab: Lab) -> None:
    running = lab.start(
        *("run", "middleware", "--cores", "1", "--where", "container", *SHORT, "--repetitions", "1"),
        WARM_UP_S="3",
        DEADLINE_MS="2000",
        MEMORY_LIMIT_MB="400",
    )
    running.wait_for("1 core, container")
    exhaust_memory(lab, "middleware-node-1", "http", megabytes=400)
    (cell,) = ended(running)["cells"]
    (trial,) = cell["by_repetition"]
    check_accounts(trial)
    assert cell["out_of_memory"] is True, trial
    assert any("http" in name for name in trial["dead"]), trial["dead"]
    assert trial["invalid_because"] == []
    assert trial["failed"] + trial["unfinished"] > 0


def test_memory_that_ends_while_devices_register_is_a_result(lab: Lab) -> None:
    running = lab.start(
        *("run", "middleware", "--cores", "1", "--where", "container", "--devices", "400", "--seconds", "3"),
        *("--repetitions", "2", "--json"),
        MEMORY_LIMIT_MB="400",
    )
    running.wait_for("to know 400 devices")
    exhaust_memory(lab, "middleware-node-1", "things", megabytes=400, after="http")
    check_starved(ended(running), requests=2400)


@pytest.mark.parametrize("megabytes", ["65", "85"])
def test_too_little_memory_to_start_is_a_result(lab: Lab, megabytes: str) -> None:
    words = ("run", "middleware", "--cores", "1", "--where", "container", "--devices", "20", "--seconds", "3")
    done = lab.run(*words, "--repetitions", "2", "--json", code=0, timeout_s=500, MEMORY_LIMIT_MB=megabytes)
    check_starved(one_run(done.stdout), requests=120)


def test_a_node_that_restarts_behind_the_balancer_is_named(lab: Lab) -> None:
    running = lab.start(
        *("run", "middleware-nodes", "--layouts", "2x1", "--devices", "20", "--seconds", "10"),
        *("--repetitions", "1", "--allow-invalid", "--json"),
        WARM_UP_S="4",
        DEADLINE_MS="2000",
        LAB_BALANCER_PORT=str(free_port()),
    )
    running.wait_for("2 nodes x 1 core")
    # 3 s after its last program.
    kill_service(lab, "middleware-node-2", "http", number=0)
    subprocess.run(
        ["docker", "restart", "-t", "0", lab.container("middleware-node-2")], check=True, capture_output=True
    )
    run = ended(running)
    (trial,) = run["cells"][0]["by_repetition"]
    check_accounts(trial)
    assert any("http of node-2" in name for name in trial["dead"]), trial["dead"]
    assert not run["valid"]
    # nginx goes on with the other node.
    assert trial["succeeded"] > trial["requests"] / 2, trial["failed_by"]


def test_bare_metal_ends_with_a_lab_that_is_killed(lab: Lab) -> None:
    running = lab.start("run", "middleware", "--cores", "1", "--where", "bare", *SHORT, WARM_UP_S="3")
    running.wait_for("1 core, bare metal")
    until(bare_metal, "bare metal", 60)
    running.process.kill()
    until(lambda: not bare_metal(), "the end of bare metal", 30)


def test_devices_on_another_host_drive_the_nodes(lab: Lab) -> None:
    with load_host("secret", processes=2) as host:
        settings = {
            "LAB_BIND": host.lab,
            "LAB_BALANCER_PORT": str(free_port()),
            "LOAD_HOSTS": f"{host.address},{host.address}:9211",
            "WARM_UP_S": "3",
        }
        words = ("run", "middleware-nodes", "--layouts", "1x1,2x1", *SHORT, "--repetitions", "1")
        refused = lab.run(*words, code=2, LOAD_TOKEN="wrong", **settings)
        assert "LOAD_TOKEN" in refused.stderr
        run = one_run(lab.run(*words, code=0, LOAD_TOKEN="secret", **settings).stdout)
        assert host.processor_s() > 0.5
    assert run["valid"], run["invalid_because"]
    for cell in run["cells"]:
        check_accounts(cell)
        assert cell["succeeded"] == cell["requests"] == 100, cell["failed_by"]
        assert (cell["lost"], cell["stored"]) == (0, 100)


def test_a_port_that_is_taken_is_named(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        words = ("run", "middleware-nodes", "--layouts", "1x1", *SHORT, "--repetitions", "1")
        done = lab.run(*words, code=3, LAB_BALANCER_PORT=str(port))
    assert str(port) in done.stderr
    assert "LAB_BALANCER_PORT" in done.stderr


def check_starved(run: dict[str, Any], requests: int) -> None:
    """No repetition was loaded for lack of memory, which is a valid result."""
    (cell,) = run["cells"]
    assert cell["out_of_memory"] is True
    assert (cell["requests"], cell["unfinished"]) == (requests, requests)
    assert cell["dead"], cell
    assert run["valid"], run["invalid_because"]


def one_run(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output)["runs"][0]
    return found


def fuzz(port: int, noise: bytes) -> None:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as one:
        one.sendall(noise)
