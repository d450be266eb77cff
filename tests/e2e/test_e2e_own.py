"""An application of one's own on the engine: the template finds who holds its answers, priorities, its own broker."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab
from support.run_checks import treatments

from looplab.experiments.own import OwnCell
from looplab.experiments.own.causes import NAGLE
from looplab.experiments.own.parameters import PARAMETERS
from looplab.report.schema import fault, run_schema

SCHEMA = run_schema(OwnCell, PARAMETERS)
QUICK = ("run", "own", "--quick", "--json", "--allow-invalid")
# A broker that the application brings along, on a port of its own.
BROKER = """  mqtt:
    <<: *part
    image: ${MOSQUITTO_IMAGE:-eclipse-mosquitto:2.0.22}
    pull_policy: missing
    depends_on: []
    volumes: []
    user: "1883:1883"
    working_dir: /tmp
    tmpfs: [/tmp]
    entrypoint:
      - sh
      - -c
      - |
        printf '%s\\n' 'listener 1884' 'allow_anonymous true' 'set_tcp_nodelay true' >m.conf
        exec /usr/sbin/mosquitto -c m.conf
"""
NODELAY = "client.on_socket_open = lambda *one: one[2].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)"


def run_of(lab: Lab, **variables: str) -> dict[str, Any]:
    done = lab.run(*QUICK, **variables)
    run = lab.stored(done.stdout)
    assert fault(run, SCHEMA) == "", done.stderr
    return run


def cell_of(run: dict[str, Any]) -> dict[str, Any]:
    """Return its only cell, in which no message was lost."""
    (cell,) = run["cells"]
    assert cell["sent"] > 200
    assert cell["lost"] == 0
    assert cell["captured"]["dropped"] == 0
    assert {one["client"] for one in cell["clients"]} == {"my-controller", "my-device"}
    return dict(cell)


def held_by_the_broker(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in cell["causes"] if one["cause"] == NAGLE and one["where"] == "in broker, to my-controller"]


@pytest.fixture(scope="module")
def corrected(session_lab: Lab) -> dict[str, Any]:
    """The only cell of a run of the template without Nagle's algorithm at the broker."""
    run = run_of(session_lab, TCP_NODELAY="on")
    session_lab.down()
    return cell_of(run)


def test_the_template_finds_who_holds_its_answers(lab: Lab, corrected: dict[str, Any]) -> None:
    """As it is published, its controller with priority, which is given by service and verified."""
    published = run_of(lab, TCP_NODELAY="off", OWN_PRIORITY="controller:80")
    cell = cell_of(published)
    (cause,) = held_by_the_broker(cell)
    # The controller asks every 20 ms, and the device takes 4.5 of them; after a stall an answer may wait for all 20.
    assert cause["messages"] > 0.8 * cell["sent"]
    assert 12 < cause["mean_ms"] < 21
    assert "set_tcp_nodelay true" in cause["remedy"]
    assert held_by_the_broker(corrected) == []
    machine = lab.machine_file()
    # Some machines grant no real-time priority.
    if machine.get("LAB_RTPRIO", "99") != "0" or machine.get("LAB_RATIONED"):
        assert treatments(published)["controller (service) scheduling policy"]["found"] == "SCHED_FIFO 80"


@pytest.fixture
def mine(lab: Lab) -> Iterator[Path]:
    """The folder of a new application; it goes, so that a second attempt finds none."""
    lab.run("new", "own", "mine", code=0)
    folder = lab.root / "my/mine"
    yield folder
    shutil.rmtree(folder)


def test_a_link_delays_one_service_both_ways_to_its_own_broker(lab: Lab, mine: Path, corrected: dict[str, Any]) -> None:
    """The broker is measured where it is. With Nagle's algorithm an answer would wait for a round trip, too."""
    for name in ("controller.py", "device.py"):
        path = mine / name
        path.write_text(path.read_text().replace('"broker", 1883', '"mqtt", 1884'))
    device = mine / "device.py"
    text = device.read_text().replace("import time\n", "import socket\nimport time\n")
    device.write_text(text.replace("client.connect(", f"{NODELAY}\nclient.connect("))
    compose = mine / "compose.yaml"
    compose.write_text(compose.read_text() + BROKER)
    variables = {"OWN_BROKER_SERVICE": "mqtt", "OWN_BROKER_PORT": "1884", "OWN_APPLICATION": "my/mine/compose.yaml"}
    run = run_of(lab, OWN_LINK="device", LINK_DELAY_MS="25", **variables)
    link = treatments(run)["link"]
    assert link["wanted"] == "device: egress 25 ms; ingress 25 ms"
    assert link["verified"], link
    assert (run["parameters"]["link"], run["parameters"]["link_delay_ms"]) == ("device", 25)
    # The fastest answers of both: what a busy machine adds is in neither.
    delayed_us, plain_us = (cell["T_us"]["min"] for cell in (cell_of(run), corrected))
    assert 50_000 <= delayed_us - plain_us < 60_000
    assert [way["settings"]["direction"] for way in run["link"]["links"]] == ["egress", "ingress"]
