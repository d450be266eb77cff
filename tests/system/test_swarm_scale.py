"""A Swarm of three nodes, each with half a processor: limits beside the model, Prometheus, and the middleware.

LAB_SWARM=1 .venv/bin/python -m pytest tests/system/test_swarm_scale.py -s   (as root, some 12 minutes)
"""

import json
import os
import runpy
import shutil
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab
from support.engines import GROUPS, Engine
from support.places import ROOT
from support.swarm_nodes import nodes
from support.waiting import until
from support.wire import call

pytestmark = [
    pytest.mark.flag("LAB_SWARM"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and further engines need root"),
    pytest.mark.skipif(not (GROUPS / "cpu").exists(), reason="each node is a quota of control groups v1"),
    pytest.mark.timeout(1800),
]
MODEL = runpy.run_path(str(ROOT / "bench/many_hosts.py"))
STACK, CORES = "looplab", 0.5
ALL = {"instance": "yes", "database": "yes", "devices": "yes", "broker": "1", "node": "yes"}
DEVICES = {"devices": "yes", "node": "yes"}
# Of one, two and three nodes: what runs where.
PLACES = {
    1: {"alpha": ALL, "beta": {}, "gamma": {}},
    2: {"alpha": {"instance": "yes", "database": "yes"}, "beta": {**DEVICES, "broker": "1"}, "gamma": {}},
    3: {
        "alpha": {"instance": "yes", "database": "yes"},
        "beta": {**DEVICES, "broker": "1"},
        "gamma": {**DEVICES, "broker": "2"},
    },
}
MIDDLEWARE = {"DEVICES": "40", "LAYOUTS": "1x1,2x1", "REPETITIONS": "1", "LOAD_S": "8", "WARM_UP_S": "4"}


@pytest.fixture(scope="module")
def swarm(session_lab: Lab) -> Iterator[dict[str, Engine]]:
    folder = Path(tempfile.mkdtemp(prefix="labscale-", dir="/tmp"))
    try:
        images: set[str] = set()
        for scenario in ("middleware-nodes", "twin-brokers"):
            session_lab.run("setup", scenario, timeout_s=1800, code=0)
            made = session_lab.run("stack", scenario, "--unchecked", "--publish", code=0, DEVICE_WORKERS="1").stdout
            images |= {service["image"] for service in json.loads(made)["services"].values()}
        call("docker", "save", "--output", str(folder / "images.tar"), *sorted(images), timeout_s=300)
        with nodes(["alpha", "beta", "gamma"], folder) as there:
            for node in there:
                node.docker("load", "--quiet", "--input", str(folder / "images.tar"), timeout_s=600)
            (folder / "images.tar").unlink()
            yield {node.name: node for node in there}
    finally:
        shutil.rmtree(folder)


@contextmanager
def deployed(
    lab: Lab, swarm: dict[str, Engine], hosts: int, scenario: str, *words: str, **settings: str
) -> Iterator[Engine]:
    """Deploy a scenario on so many nodes; yield their manager."""
    manager = swarm["alpha"]
    for name, labels in PLACES[hosts].items():
        change = [word for label in ALL for word in ("--label-add", f"looplab.{label}={labels.get(label, 'no')}")]
        manager.docker("node", "update", *change, name)
    done = lab.run("stack", scenario, *words, code=0, DOCKER_HOST=manager.endpoint, **settings)
    file = lab.root / "stack.json"
    stack = json.loads(done.stdout)
    for service in stack["services"].values():
        # The node is the machine; a part of it cannot have more than all of it.
        service["deploy"].pop("resources", None)
    file.write_text(json.dumps(stack))
    try:
        manager.docker("stack", "deploy", "--resolve-image", "never", "--compose-file", str(file), STACK)
        yield manager
    finally:
        manager.docker("stack", "rm", STACK)
        until(lambda: not [one for node in swarm.values() for one in node.docker("ps", "-q").split()], "the end", 120)
        until(lambda: STACK not in manager.docker("network", "ls"), "the end of its networks", 90)


def ran(lab: Lab, manager: Engine, scenario: str, limit_s: float = 300) -> dict[str, Any]:
    """Return the run.json of the only run."""
    found: dict[str, Any] = until(lambda: lab.newest()[1], f"a run of {scenario} on {manager.name}", limit_s)
    lab.forget_runs()
    return found


@pytest.fixture(scope="module")
def demands(session_lab: Lab) -> Any:
    """What a message needs, as one machine measures it."""
    words = ("--write-mode", "row", "--brokers", "1", "--intervals", "1.25", "--messages", "3000")
    more = ("--repetitions", "1", "--fidelity", "corrected", "--busy", "--json")
    session_lab.run("run", "twin-brokers", *words, *more, timeout_s=300, CONFINEMENT="quota", code=0)
    (cell,) = session_lab.newest()[1]["cells"]
    session_lab.forget_runs()
    session_lab.run("down", code=0)
    print({name: round(1e6 * value) for name, value in MODEL["demands"](cell)._asdict().items()})
    return MODEL["demands"](cell)


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_the_limit_beside_the_model(session_lab: Lab, swarm: dict[str, Engine], demands: Any, hosts: int) -> None:
    expected, _first = MODEL["limit"](MODEL["resources"](demands, hosts, CORES))
    for node in swarm.values():
        node.confine(CORES)
    settings = {
        "DEVICE_WORKERS": str(max(1, hosts - 1)), "BROKERS": str(max(1, hosts - 1)), "PLACEMENTS": "distributed",
        "WRITE_MODE": "row", "REPETITIONS": "1", "FIDELITY": "corrected", "MESSAGES": str(round(4 * expected)),
        "INTERVALS_MS": " ".join(f"{1000 / expected / share:.3f}" for share in (0.5, 0.8, 1.0, 1.25, 1.6)),
    }  # fmt: skip
    with deployed(session_lab, swarm, hosts, "twin-brokers", **settings) as manager:
        run = ran(session_lab, manager, "twin-brokers")
    cells = sorted(run["cells"], key=lambda cell: -float(cell["interval_ms"]))
    best = max(cells, key=lambda cell: cell["rate_out_per_s"])
    # The disk is that of all three, and of whatever else runs.
    there = MODEL["resources"](demands._replace(disk=best["fsync"]["seconds"] / best["stored"]), hosts, CORES)
    measured, (expected, first) = best["rate_out_per_s"], MODEL["limit"](there)
    late_ms = 1000 * MODEL["delay_s"](demands, there, expected / 2)
    print(f"{hosts} hosts: {measured:.0f} a second, model {expected:.0f} ({first}); delay at half of the model's: "
          f"{cells[0]['storage_delay_us']['avg'] / 1000:.1f} ms, model {late_ms:.1f}; "
          f"rates {[(cell['rate_in_per_s'], cell['rate_out_per_s']) for cell in cells]}")  # fmt: skip
    assert 0.5 < measured / expected < 2


def test_prometheus_finds_every_host(session_lab: Lab, swarm: dict[str, Engine]) -> None:
    settings = {"DEVICE_WORKERS": "2", "BROKERS": "2", "PLACEMENTS": "distributed", "WRITE_MODE": "copy",
                "REPETITIONS": "1", "INTERVALS_MS": "10", "MESSAGES": "600"}  # fmt: skip

    port = session_lab.environment["LAB_PROMETHEUS_PORT"]

    def asked(question: str) -> list[dict[str, Any]]:
        url = f"http://{swarm['alpha'].address}:{port}/api/v1/query?query={urllib.parse.quote(question)}"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return list(json.load(reply)["data"]["result"])

    def hosts(question: str) -> set[str]:
        return {one["metric"].get("host", "") for one in asked(question)}

    with deployed(session_lab, swarm, 3, "twin-brokers", "--publish", **settings) as manager:
        until(lambda: hosts('lab:host_cpu:cores{mode="idle"}') == set(swarm), "processors of each host", 120)
        assert len(asked('up{job="hosts"} == 1')) == 2
        sent = 'twin_device_messages_total{outcome="sent"}'
        until(lambda: hosts(sent) == {"beta", "gamma"}, "messages of each host", 300)
        assert sum(float(one["value"][1]) for one in asked(sent)) == 600
        ran(session_lab, manager, "twin-brokers")


def test_the_middleware_on_three_nodes(session_lab: Lab, swarm: dict[str, Engine]) -> None:
    for node in swarm.values():
        node.confine(2)
    with deployed(session_lab, swarm, 3, "middleware-nodes", **MIDDLEWARE) as manager:
        run = ran(session_lab, manager, "middleware-nodes", 500)
    print(run["invalid_because"], [(cell["nodes"], cell["requests"], cell["succeeded"]) for cell in run["cells"]])
    assert run["valid"], run["invalid_because"]
    for cell in run["cells"]:
        assert cell["requests"] == cell["succeeded"] + cell["failed"] + cell["unfinished"]
        assert (cell["lost"], cell["duplicates"]) == (0, 0)
