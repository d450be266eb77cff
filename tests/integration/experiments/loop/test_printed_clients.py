"""CLIENTS=printed with real programs on loopback: their account, their stamps, and what a run shows of them."""

import json
import os
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest
from support.loop_lab import LoopLab
from support.parts import HOST, TreatmentsDouble, until
from support.places import ROOT
from support.run_checks import check_run, treatments

from looplab.experiments.loop import CLIENTS
from looplab.experiments.loop.printed.wire import WatchedClients
from looplab.mqtt.packets import publish_packet
from looplab.system import processes

needs_packets = pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs root")


@pytest.fixture
def seeing(lab: LoopLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the treatments double find the programs, which come and go."""
    lab.treatments.close()

    def pids() -> dict[str, list[int]]:
        own = [pid for name in CLIENTS.comms for pid in processes.named(name)]
        return {**lab.pids, "broker": [lab.broker.pid], CLIENTS.name: own}

    lab.treatments = TreatmentsDouble(pids, lab.fifo)
    monkeypatch.setenv("PRINTED_CLIENTS", str(ROOT / "images/printed"))


def run(lab: LoopLab, **variables: str) -> dict[str, Any]:
    """Run the printed clients in this Python; return run.json."""
    # The tests' broker has TCP_NODELAY.
    if "QOS_LEGS" not in variables:
        lab.online_bridge(FIDELITY="printed", TCP_NODELAY="on")
    settings = {"FIDELITY": "printed", "TCP_NODELAY": "on", "BROKER_PATH": "direct", "PYTHON": "3"}
    child = lab.controller(**settings, **variables)
    assert child.wait() == 0, child.said()
    found: dict[str, Any] = json.loads((lab.run / "run.json").read_text())
    check_run(lab.run, found)
    assert [(cell["sent"], cell["answered"]) for cell in found["cells"]] == [(40, 40)] * 2
    return found


class Watched(WatchedClients):
    """Clients that somebody else runs."""

    end = _read = lambda _self: None


@needs_packets
def test_a_machine_that_stalls_loses_no_message_of_a_packet() -> None:
    """On a busy machine several requests leave in one packet, and the controller stands still among them."""
    taken: list[bytes] = []
    payloads = [b"E-run-%d" % number for number in range(3)]
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as client:
        watched = Watched(SimpleNamespace(broker_port=server.getsockname()[1]), lambda _until_ns: None)  # type: ignore[arg-type]
        watched.on_publish = lambda one: time.sleep(0.1) or taken.append(one.payload)
        client.sendall(b"".join(publish_packet(b"request/", payload, False) for payload in payloads))
        until(lambda: watched.wait(0) or taken, "a message")
        for _ in range(5):
            watched.wait(0)
        watched.close()
    assert taken == payloads


@needs_packets
@pytest.mark.usefixtures("seeing")
def test_each_repetition_has_processes_of_its_own(lab: LoopLab) -> None:
    found = run(lab, QOS="0 1", PRIORITY_CONTROLLER="99")
    own = treatments(found)
    assert own["client processes"]["found"] == "8"
    # As published: what the flags permit is the programs', not the controller's alone.
    assert own["clients may use real-time priority"]["found"].endswith("SYS_NICE effective")
    assert found["warmup"] == {"sent": 0, "answered": 0}
    for cell in found["cells"]:
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]


@needs_packets
@pytest.mark.usefixtures("seeing")
def test_one_process_a_run_sleeps_and_has_a_warm_up(lab: LoopLab) -> None:
    lab.online_bridge(FIDELITY="corrected")
    bridge = {"QOS_LEGS": "all", "ROBOT_FRAMING": "line", "PAIRING": "request"}
    found = run(lab, RECEIVER="select", LIFE="run", QOS="0 2", **bridge)
    own = treatments(found)
    assert own["client processes"]["found"] == "2"
    assert own["controller's subscription to answer/"]["found"] == "QoS 2"
    # Five at each QoS.
    assert found["warmup"] == {"sent": 10, "answered": 10, "lost": 0}
