"""The stack files on a Swarm of three nodes: devices on three, brokers on two; a node is cut, drained, killed.

LAB_SWARM=1 .venv/bin/python -m pytest tests/system/test_swarm.py -s   (as root, some 20 minutes)
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.e2e_lab import Lab
from support.engines import Engine
from support.tables import rows
from support.twin_lab import account, document
from support.waiting import until
from support.wire import Lan, call

from looplab.system.env_files import read_env


def _leave(made: Sequence[Engine]) -> None:
    leave = ["docker", "swarm", "leave", "--force"]
    for node in reversed(made):
        subprocess.run(leave, env=node.environment, capture_output=True, timeout=90, check=False)


pytestmark = [
    pytest.mark.flag("LAB_SWARM"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and further engines need root"),
    pytest.mark.timeout(1800),
]
STACK = "looplab"
LABELS = {
    "alpha": {"instance": "yes", "database": "yes", "devices": "yes", "broker": "1", "node": "yes"},
    "beta": {"devices": "yes", "broker": "2", "node": "yes"},
    "gamma": {"devices": "yes"},
}
RUNS = {"twin": "twin-brokers", "middleware": "middleware-nodes"}
TWIN = {"DEVICE_WORKERS": "3", "BROKERS": "2", "WRITE_MODE": "copy", "REPETITIONS": "1", "MESSAGES": "900"}
MIDDLEWARE = {"DEVICES": "40", "LAYOUTS": "1x1,2x1", "REPETITIONS": "1", "LOAD_S": "8", "WARM_UP_S": "4"}
RUN_LIMIT_S = 200.0
# As docs/many-hosts.md has it.
SECRETS = """
umask 077; mkdir -p secrets/stack
for name in owner writer reader token postgres spicedb tokens admin nodes devices; do
    openssl rand -hex 16 >secrets/stack/$name
done
"""


@pytest.fixture(scope="module")
def swarm(session_lab: Lab) -> Iterator[dict[str, Engine]]:
    """Three nodes with their labels, joined to a Swarm that the first one manages."""
    subprocess.run(["sh", "-ec", SECRETS], cwd=session_lab.root, check=True)
    with tempfile.TemporaryDirectory(prefix="labswarm-", dir="/tmp") as folder, ExitStack() as stack:
        lan = stack.enter_context(Lan(os.getpid() % 200 + 20, tuple(LABELS)))
        made = [stack.enter_context(Engine(lan, name, Path(folder) / name)) for name in LABELS]
        stack.callback(_leave, made)
        first, *others = made
        first.docker("swarm", "init", "--advertise-addr", first.address)
        token = first.docker("swarm", "join-token", "--quiet", "worker")
        for node in others:
            node.docker("swarm", "join", "--token", token, "--advertise-addr", node.address, f"{first.address}:2377")
        yield {node.name: node for node in made}


class Deployed:
    """A run on the Swarm, from the stack file of `experiment`."""

    def __init__(self, lab: Lab, swarm: dict[str, Engine], experiment: str, settings: dict[str, str]) -> None:
        self._lab, self._swarm, self.manager = lab, swarm, swarm["alpha"]
        self._service = f"{STACK}_{RUNS[experiment]}"
        self._before = set(lab.runs())
        owner = {"LAB_UID": str(os.getuid()), "LAB_GID": str(os.getgid())}
        shell = {**self.manager.environment, **read_env(lab.root / ".env"), **lab.machine_file(), **owner, **settings}
        file = str(lab.root / f"compose/experiments/{experiment}/stack.yaml")
        self._bring_images(call("docker", "stack", "config", "--compose-file", file, env=shell))
        for name in LABELS:
            labels = {label: LABELS[name].get(label, "no") for label in LABELS["alpha"]}
            words = [word for label, value in labels.items() for word in ("--label-add", f"looplab.{label}={value}")]
            self.manager.docker("node", "update", "--availability", "active", *words, name)
        call("docker", "stack", "deploy", "--resolve-image", "never", "--compose-file", file, STACK, env=shell)

    def _bring_images(self, stack: str) -> None:
        images = sorted({service["image"] for service in yaml.safe_load(stack)["services"].values()})
        archive = self._lab.root / "images.tar"
        for node in self._swarm.values():
            if missing := set(images) - set(node.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()):
                call("docker", "save", "--output", str(archive), *missing, timeout_s=300)
                node.docker("load", "--quiet", "--input", str(archive), timeout_s=600)
        archive.unlink(missing_ok=True)

    def until_stored(self, count: int) -> None:
        """Wait until the controller reports that many messages; the live table is on the manager's node."""
        psql = ["psql", "--username", "owner", "--dbname", "twin", "--tuples-only", "--command"]

        def stored() -> bool:
            try:
                found = self.manager.docker("ps", "--quiet", "--filter", f"name={STACK}_twin-database").split()
                return int(self.manager.docker("exec", found[0], *psql, "SELECT count(*) FROM message")) >= count
            except (AssertionError, IndexError):
                return False

        until(stored, f"{count} rows", RUN_LIMIT_S)

    def document(self) -> dict[str, Any]:
        """Wait for the end of the run; return its run.json."""
        (folder,) = until(lambda: set(self._lab.runs()) - self._before, f"a run of {self._service}", RUN_LIMIT_S)
        self.samples = [row for row in rows(folder / "samples.csv") if row.get("outcome")]
        return document(folder)

    def nodes_of(self, service: str) -> set[str]:
        words = ("--filter", "desired-state=running", "--format", "{{.Node}}")
        return set(self.manager.docker("service", "ps", *words, f"{STACK}_{service}").split())

    def remove(self) -> None:
        self.manager.docker("stack", "rm", STACK)
        until(lambda: not self.manager.docker("ps", "--quiet"), "the end of the stack", 90)
        until(lambda: STACK not in self.manager.docker("network", "ls"), "the end of its networks", 90)


@pytest.fixture
def deployed(session_lab: Lab, swarm: dict[str, Engine]) -> Iterator[Deployed]:
    session_lab.run("setup", "twin-brokers", timeout_s=900, code=0)
    made = Deployed(session_lab, swarm, "twin", TWIN)
    yield made
    made.remove()


def test_devices_on_three_nodes_and_brokers_on_two(deployed: Deployed) -> None:
    places = {"twin-devices": set(LABELS), "twin-brokers-1": {"alpha"}, "twin-brokers-2": {"beta"}}
    until(lambda: all(deployed.nodes_of(service) == nodes for service, nodes in places.items()), f"{places}", 60)
    run = deployed.document()
    assert run["valid"], run["invalid_because"]
    assert run["parameters"]["swarm"]
    (cell,) = run["cells"]
    assert account(cell, deployed.samples) == {"stored": 900, "lost": 0, "refused": 0}
    assert [(one["host"], one["sent"]) for one in cell["device_workers"]] == [(name, 300) for name in sorted(LABELS)]
    assert [one["stored"] for one in cell["per_broker"]] == [450, 450]


def test_a_cut_of_ten_seconds_loses_nothing(deployed: Deployed, swarm: dict[str, Engine]) -> None:
    """The node of a broker and of devices is away."""
    deployed.until_stored(150)
    with swarm["beta"].cut():
        time.sleep(10)
    run = deployed.document()
    (cell,) = run["cells"]
    assert account(cell, deployed.samples) == {"stored": 900, "lost": 0, "refused": 0}
    assert run["valid"], run["invalid_because"]


def test_the_middleware_on_two_nodes(session_lab: Lab, swarm: dict[str, Engine]) -> None:
    session_lab.run("setup", "middleware-nodes", timeout_s=1800, code=0)
    deployed = Deployed(session_lab, swarm, "middleware", MIDDLEWARE)
    try:
        run = deployed.document()
    finally:
        deployed.remove()
    assert run["valid"], run["invalid_because"]
    assert run["parameters"]["swarm"]
    for cell in run["cells"]:
        assert cell["requests"] == cell["succeeded"] + cell["failed"] + cell["unfinished"]
        assert (cell["lost"], cell["duplicates"]) == (0, 0)


@pytest.mark.parametrize("how", ["drained", "killed"])
def test_a_fallen_node_is_named(deployed: Deployed, swarm: dict[str, Engine], how: str) -> None:
    """The last: a gamma that was killed does not come back."""
    deployed.until_stored(150)
    if how == "drained":
        deployed.manager.docker("node", "update", "--availability", "drain", "gamma")
    else:
        swarm["gamma"].kill()
    run = deployed.document()
    (cell,) = run["cells"]
    print(run["invalid_because"], cell["device_workers"])
    found = account(cell, deployed.samples)
    (fallen,) = [one for one in cell["device_workers"] if one["host"] == "gamma"]
    assert 10 < fallen["sent"] < 300
    assert found["lost"] == fallen["sent"] - fallen["stored"]
    assert found["stored"] == 600 + fallen["stored"]
    assert not run["valid"]
    assert [why for why in run["invalid_because"] if f"on gamma was lost: {fallen['sent']} of 300" in why]
    assert {one["what"] for one in run["treatments"] if one["required"] and not one["verified"]} == {"device workers"}
