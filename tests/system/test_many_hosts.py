"""The loop on two hosts: an engine in a network namespace each, as Docker contexts; ssh is left out.

Their images come by the command that the lab's own message names.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab
from support.engines import Engine
from support.run_checks import total, treatments
from support.waiting import until
from support.wire import Lan

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and more engines need root"),
    pytest.mark.flag("LAB_MANY_HOSTS"),
]
Hosts = dict[str, Engine]
SHORT = ("--intervals", "20", "--messages", "100", "--repetitions", "2", "--json")
APART = ("--controller-on", "host-a", "--broker-on", "host-b", "--bridge-on", "host-b")
SETTINGS = {"ROBOT_FRAMING": "line", "STRESS_VM_BYTES": "16M"}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    lan = Lan(os.getpid() % 200 + 20, ("host-a", "host-b"))
    with lan, Engine(lan, "host-a", folder / "host-a") as a, Engine(lan, "host-b", folder / "host-b") as b:
        yield {"host-a": a, "host-b": b}


@pytest.fixture(scope="module")
def placed(session_lab: Lab, engines: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The lab knows both hosts, in a Docker configuration of its own."""
    folder = tmp_path_factory.mktemp("docker")
    plugins = Path.home() / ".docker" / "cli-plugins"
    if plugins.exists():
        (folder / "cli-plugins").symlink_to(plugins)
    session_lab.environment.update(DOCKER_CONFIG=str(folder), LAB_LAN_BIND=engines["host-a"].lan.here)
    for name, engine in engines.items():
        session_lab.run("hosts", "add", name, engine.endpoint, "--address", engine.lan.addresses[name], code=0)
    return session_lab


def run_on(lab: Lab, engines: Hosts, *words: str, code: int = 0, **settings: str) -> dict[str, Any]:
    """A run that leaves nothing on any host; images that a host lacks come by the command that the message names."""
    done = lab.run("run", *words, *SHORT, timeout_s=400, **SETTINGS, **settings)
    while (command := done.stderr.partition("copy them: ")[2].replace("\n", " ")) and done.returncode == 3:
        print(command)
        copied = subprocess.run(command, shell=True, env=lab.environment, check=False, capture_output=True)
        assert copied.returncode == 0, copied.stderr
        done = lab.run("run", *words, *SHORT, timeout_s=400, **SETTINGS, **settings)
    print(done.stderr)
    because = [run["invalid_because"] for run in json.loads(done.stdout or '{"runs": []}')["runs"]]
    assert done.returncode == code, because
    assert {name: engine.left() for name, engine in engines.items()} == {"host-a": [], "host-b": []}
    return lab.stored(done.stdout)


@contextmanager
def captured(host: Engine, file: Path, what: str) -> Iterator[Path]:
    """Record what passes the network card of a host."""
    inside = ["nsenter", f"--net=/run/netns/{host.lan.namespace(host.name)}"]
    command = [*inside, "tcpdump", "-n", "-U", "-s", "0", "-i", "eth0", "-w", str(file), "-Z", "root", *what.split()]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tcpdump:
        try:
            until(lambda: file.exists() and file.stat().st_size, "tcpdump")
            yield file
        finally:
            tcpdump.terminate()


def test_scenario1_with_the_controller_on_another_host(placed: Lab, engines: Hosts) -> None:
    run = run_on(placed, engines, "scenario1", *APART)
    assert total(run, "sent") == total(run, "answered") == 200
    assert {name: own["roles"] for name, own in run["hosts"].items()} == {
        "host-a": ["controller", "clients"],
        "host-b": ["broker", "bridge", "robot"],
    }
    for name, own in run["hosts"].items():
        assert all(entry["wakeups"] > 0 for entry in own["noise_floor"]), own
        facts = run["environment"]["hosts"][name]
        assert (facts["kernel"], facts["cores"]) == (os.uname().release, os.cpu_count())
    assert treatments(run)["controller path to the broker"]["found"].startswith("port")
    assert run["bridge"]["tls"] == ""


@pytest.mark.parametrize("tls", ["off", "on"])
def test_scenario5_with_stress_on_both_hosts(placed: Lab, engines: Hosts, tls: str, tmp_path: Path) -> None:
    with captured(engines["host-b"], tmp_path / "wire.pcap", "port 9110") as wire:
        run = run_on(placed, engines, "scenario5", *APART, "--allow-invalid", BROKER_TLS=tls)
    # What asks the treatments service of host-b crosses the network in the clear only without TLS.
    assert (b"Authorization: Bearer" in wire.read_bytes()) == (tls == "off")
    assert wire.stat().st_size > 5000
    assert sum(total(run, count) for count in ("answered", "late", "lost", "robot_errors")) == 200
    judged = treatments(run)
    for host in ("host-a", "host-b"):
        assert judged[f"stress load on {host}"]["verified"]
        assert judged[f"stress in every cell on {host}"]["verified"]
    # The machine's own engine may hold all real-time budget; these two then grant none.
    assert all("may use real-time priority" in why for why in run["invalid_because"])
    assert run["bridge"]["tls"].startswith("TLSv1.") == (tls == "on")


def test_the_flood_of_scenario7_is_at_the_broker(placed: Lab, engines: Hosts) -> None:
    run = run_on(placed, engines, "scenario7", *APART)
    judged = treatments(run)
    assert judged["flood load on host-b"]["found"] == "running"
    assert judged["flood load on host-a"]["found"] == "not running"


def test_a_treatment_that_falls_on_one_host_is_named(placed: Lab, engines: Hosts) -> None:
    running = placed.measuring("scenario5", 3, *APART, "--qos", "0,1", **SETTINGS)
    engines["host-b"].docker("kill", "looplab-hosts-stress-1")
    run = running.ended(1, 200)
    print(run["invalid_because"])
    assert any("on host-b" in why for why in run["invalid_because"])
    assert not any("on host-a" in why for why in run["invalid_because"])


def test_a_cut_between_hosts_loses_only_what_it_must(placed: Lab, engines: Hosts) -> None:
    running = placed.measuring("scenario1", 20, *APART, "--allow-invalid", **SETTINGS)
    with engines["host-b"].cut():
        time.sleep(5)
    run = running.ended(0, 200)
    # 250 were sent while the cable was out; TCP comes back within seconds.
    assert 100 < total(run, "sent") - total(run, "answered") < 750
    assert {name: engine.left() for name, engine in engines.items()} == {"host-a": [], "host-b": []}


def test_down_removes_what_a_killed_lab_left(placed: Lab, engines: Hosts, tmp_path: Path) -> None:
    running = placed.measuring("scenario1", 20, *APART, **SETTINGS)
    running.process.kill()
    running.process.wait()
    assert all(engine.left() for engine in engines.values())
    other = placed.another(tmp_path / "lab").run("run", "scenario1", *APART, code=3)
    assert "Another lab runs on" in other.stderr
    placed.run("down", code=0)
    assert {name: engine.left() for name, engine in engines.items()} == {"host-a": [], "host-b": []}
