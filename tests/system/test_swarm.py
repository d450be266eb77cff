"""The digital twin on a Swarm of three nodes: devices on three, brokers on two; a node is cut, drained, killed.

LAB_SWARM=1 .venv/bin/python -m pytest tests/system/test_swarm.py   (as root, some 15 minutes)
"""

import csv
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab
from support.engines import Engine
from support.swarm_nodes import nodes
from support.twin_lab import account, document
from support.waiting import until
from support.wire import call

pytestmark = [
    pytest.mark.flag("LAB_SWARM"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and further engines need root"),
    pytest.mark.timeout(1800),
]
STACK = "looplab"
LABELS = {
    "alpha": {"instance": "yes", "database": "yes", "devices": "yes", "broker": "1"},
    "beta": {"devices": "yes", "broker": "2"},
    "gamma": {"devices": "yes"},
}
SMALL: dict[str, Any] = {
    "DEVICE_WORKERS": "3", "BROKERS": "2", "PLACEMENTS": "distributed", "WRITE_MODE": "copy", "REPETITIONS": "1",
    "INTERVALS_MS": "10", "MESSAGES": "900",
}  # fmt: skip
RUN_LIMIT_S = 240.0


@pytest.fixture(scope="module")
def swarm(session_lab: Lab) -> Iterator[dict[str, Engine]]:
    """Three nodes with the lab's images; nothing has a label yet."""
    folder = Path(tempfile.mkdtemp(prefix="labswarm-", dir="/tmp"))
    try:
        session_lab.run("setup", "twin-brokers", timeout_s=900, code=0)
        made = session_lab.run("stack", "twin-brokers", "--unchecked", code=0, **SMALL).stdout
        images = sorted({service["image"] for service in json.loads(made)["services"].values()})
        archive = folder / "images.tar"
        call("docker", "save", "--output", str(archive), *images, timeout_s=300)
        with nodes([*LABELS], folder) as there:
            for node in there:
                node.docker("load", "--quiet", "--input", str(archive), timeout_s=600)
            archive.unlink()
            yield {node.name: node for node in there}
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def labelled(swarm: dict[str, Engine]) -> dict[str, Engine]:
    for name, labels in LABELS.items():
        words = [word for label, value in labels.items() for word in ("--label-add", f"looplab.{label}={value}")]
        swarm["alpha"].docker("node", "update", "--availability", "active", *words, name)
    return swarm


class Deployed:
    """A run on the Swarm, from the file that `./lab stack` prints."""

    def __init__(self, lab: Lab, manager: Engine, folder: Path) -> None:
        self._lab, self.manager = lab, manager
        self._before = set(self._runs())
        done = lab.run("stack", "twin-brokers", code=0, DOCKER_HOST=manager.endpoint, **SMALL)
        self.notes, file = done.stderr, folder / "twin.stack.yaml"
        file.write_text(done.stdout)
        manager.docker("stack", "deploy", "--resolve-image", "never", "--compose-file", str(file), STACK)

    def until_stored(self, count: int) -> None:
        """Wait until the controller reports that many messages; the live table is on the manager's node."""
        question = "SELECT count(*) FROM message"

        def stored() -> bool:
            name = f"name={STACK}_twin-database"
            container = self.manager.docker("ps", "--quiet", "--filter", name).split()[0]
            psql = ("psql", "--username", "owner", "--dbname", "twin", "--tuples-only", "--command", question)
            return int(self.manager.docker("exec", container, *psql)) >= count

        def asked() -> bool:
            try:
                return stored()
            except (AssertionError, IndexError):
                return False

        until(asked, f"{count} rows", RUN_LIMIT_S)

    def document(self) -> dict[str, Any]:
        """Wait for the end of the run; return its run.json."""
        (folder,) = until(lambda: set(self._runs()) - self._before, f"a run: {self.logs()}", RUN_LIMIT_S)
        run = document(folder)
        with (folder / "samples.csv").open() as file:
            self.samples = [row for row in csv.DictReader(file) if row["outcome"]]
        return run

    def logs(self) -> str:
        return self.manager.docker("service", "logs", "--raw", "--tail", "5", f"{STACK}_twin-brokers")

    def nodes_of(self, service: str) -> set[str]:
        words = ("--filter", "desired-state=running", "--format", "{{.Node}}")
        return set(self.manager.docker("service", "ps", *words, f"{STACK}_{service}").split())

    def remove(self) -> None:
        self.manager.docker("stack", "rm", STACK)
        until(lambda: not self.manager.docker("ps", "--quiet"), "the end of the stack", 90)
        until(lambda: STACK not in self.manager.docker("network", "ls"), "the end of its networks", 90)

    def _runs(self) -> list[Path]:
        return [path.parent for path in (self._lab.root / "results").glob("*/run.json")]


@pytest.fixture
def deployed(session_lab: Lab, labelled: dict[str, Engine], tmp_path: Path) -> Iterator[Deployed]:
    made = Deployed(session_lab, labelled["alpha"], tmp_path)
    yield made
    made.remove()


def test_no_label_no_start(session_lab: Lab, swarm: dict[str, Engine]) -> None:
    done = session_lab.run("stack", "twin-brokers", DOCKER_HOST=swarm["alpha"].endpoint, **SMALL)
    assert (done.returncode, done.stdout) == (3, "")
    assert "docker node update --label-add looplab.broker=1 NODE" in done.stderr
    done = session_lab.run("stack", "twin-brokers", DOCKER_HOST=swarm["beta"].endpoint, **SMALL)
    assert done.returncode == 3
    assert f"Run this on a manager: {swarm['alpha'].address}:2377" in done.stderr


def test_an_image_that_a_node_lacks_is_named(session_lab: Lab, labelled: dict[str, Engine]) -> None:
    image = "looplab/nowhere:0"
    done = session_lab.run(
        "stack", "twin-brokers", DOCKER_HOST=labelled["alpha"].endpoint, MOSQUITTO_IMAGE=image, **SMALL
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert f"Images are missing: {image} on alpha, {image} on beta." in done.stderr
    assert labelled["alpha"].docker("service", "ls", "--quiet") == ""


def test_devices_on_three_nodes_and_brokers_on_two(
    session_lab: Lab, deployed: Deployed, labelled: dict[str, Engine]
) -> None:
    places = {"twin-devices": set(LABELS), "twin-brokers-1": {"alpha"}, "twin-brokers-2": {"beta"}}
    until(lambda: all(deployed.nodes_of(service) == nodes for service, nodes in places.items()), f"{places}", 60)
    second = session_lab.run("stack", "twin-brokers", DOCKER_HOST=labelled["alpha"].endpoint, **SMALL)
    assert second.returncode == 3
    assert f"docker stack rm {STACK}" in second.stderr
    run = deployed.document()
    assert run["valid"], run["invalid_because"]
    (cell,) = run["cells"]
    assert account(cell, deployed.samples) == {"stored": 900, "lost": 0, "refused": 0}
    assert [(one["host"], one["sent"]) for one in cell["device_workers"]] == [(name, 300) for name in sorted(LABELS)]
    assert [one["stored"] for one in cell["per_broker"]] == [450, 450]
    print({one["host"]: one["start_error_us"] for one in cell["device_workers"]}, cell["storage_delay_us"])


def test_a_cut_of_ten_seconds_loses_nothing(deployed: Deployed, labelled: dict[str, Engine]) -> None:
    """The node of a broker and of devices is away."""
    deployed.until_stored(150)
    with labelled["beta"].cut():
        time.sleep(10)
    run = deployed.document()
    (cell,) = run["cells"]
    print(run["invalid_because"], cell["device_workers"], cell["disconnects"], cell["duplicates"])
    assert account(cell, deployed.samples) == {"stored": 900, "lost": 0, "refused": 0}
    assert run["valid"], run["invalid_because"]


def test_a_drained_node_is_named(deployed: Deployed) -> None:
    deployed.until_stored(150)
    deployed.manager.docker("node", "update", "--availability", "drain", "gamma")
    _judge_fallen(deployed, "gamma", "was stopped")


def test_a_killed_node_is_named(deployed: Deployed, labelled: dict[str, Engine]) -> None:
    """The last: gamma does not come back."""
    deployed.until_stored(150)
    labelled["gamma"].kill()
    _judge_fallen(deployed, "gamma", "was lost")


def _judge_fallen(deployed: Deployed, host: str, fault: str) -> None:
    run = deployed.document()
    (cell,) = run["cells"]
    print(run["invalid_because"], cell["device_workers"])
    found = account(cell, deployed.samples)
    (fallen,) = [one for one in cell["device_workers"] if one["host"] == host]
    assert 10 < fallen["sent"] < 300
    assert found["lost"] == fallen["sent"] - fallen["stored"]
    assert found["stored"] == 600 + fallen["stored"]
    assert not run["valid"]
    assert [why for why in run["invalid_because"] if f"on {host} {fault}: {fallen['sent']} of 300" in why]
    assert {one["what"] for one in run["treatments"] if one["required"] and not one["verified"]} == {"device workers"}


def test_nothing_is_left_behind(labelled: dict[str, Engine]) -> None:
    for name in ("alpha", "beta"):
        until(lambda: not labelled[name].docker("ps", "-aq"), "no container", 60)  # noqa: B023
        until(lambda: STACK not in labelled[name].docker("network", "ls"), "no network", 60)  # noqa: B023
