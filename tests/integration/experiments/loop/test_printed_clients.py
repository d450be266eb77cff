"""CLIENTS=printed with real programs on loopback: their account, their stamps, and what a run shows of them."""

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.loop_lab import LoopLab
from support.parts import HOST, TreatmentsDouble
from support.places import ROOT
from support.run_checks import check_run

from looplab.experiments.loop import CLIENTS
from looplab.experiments.loop.printed.wire import Publish, Wire
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
    settings = {
        "FIDELITY": "printed",
        "TCP_NODELAY": "on",
        "BROKER_PATH": "direct",
        "PYTHON": "3",
        "MESSAGES": "20",
        **variables,
    }
    child = lab.controller(**settings)
    code = child.wait()
    found: dict[str, Any] = json.loads((lab.run / "run.json").read_text())
    assert code == 0, (child.said(), found["invalid_because"])
    check_run(lab.run, found)
    return found


def treatments(run: dict[str, Any]) -> dict[str, str]:
    return {entry["what"]: entry["found"] for entry in run["treatments"]}


@needs_packets
@pytest.mark.usefixtures("seeing")
def test_each_repetition_has_processes_of_its_own(lab: LoopLab) -> None:
    found = run(lab, QOS="0 1 2", REPETITIONS="2", PRIORITY_CONTROLLER="99")
    assert [(cell["sent"], cell["answered"]) for cell in found["cells"]] == [(40, 40)] * 3
    assert treatments(found)["client processes"] == "12"
    # As published: what the flags permit is the programs', not the controller's alone.
    assert treatments(found)["clients may use real-time priority"].endswith("SYS_NICE effective")
    assert found["warmup"] == {"sent": 0, "answered": 0}
    for cell in found["cells"]:
        assert cell["written"] == 2
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]


@needs_packets
@pytest.mark.usefixtures("seeing")
def test_one_process_a_run_sleeps_and_has_a_warm_up(lab: LoopLab) -> None:
    lab.online_bridge(FIDELITY="corrected")
    bridge = {"QOS_LEGS": "all", "ROBOT_FRAMING": "line", "PAIRING": "request"}
    found = run(lab, RECEIVER="select", LIFE="run", QOS="0 2", REPETITIONS="2", **bridge)
    assert [(cell["sent"], cell["answered"], cell["written"]) for cell in found["cells"]] == [(40, 40, 2)] * 2
    own = treatments(found)
    assert own["client processes"] == "2"
    assert own["controller's subscription to answer/"] == "QoS 2"
    # Five at each QoS.
    assert found["warmup"] == {"sent": 10, "answered": 10, "lost": 0}
    assert max(found["printed_clients"]["runnable"]) < 0.6


@pytest.fixture
def wire() -> Iterator[tuple[Wire, socket.socket, socket.socket]]:
    """Return the packets of a port, a client that is connected to it, and its peer: the broker's end."""
    with socket.create_server((HOST, 0)) as server:
        found = Wire(server.getsockname()[1])
        with socket.create_connection(server.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            broker, _ = server.accept()
            with broker:
                broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # The kernel begins to stamp a moment after it was asked.
                time.sleep(0.5)
                yield found, client, broker
        found.close()


@needs_packets
def test_packets_are_told_by_direction_whole_and_once(wire: tuple[Wire, socket.socket, socket.socket]) -> None:
    packets, client, broker = wire
    first, second = (publish_packet(b"request/", b"T-run-%06d" % k, False) for k in range(2))
    # Two in one segment, then one in two, beside packets of other kinds.
    client.sendall(b"\x40\x02\0\x01" + first + second)
    client.sendall(first[:9])
    time.sleep(0.05)
    before_ns = time.perf_counter_ns()
    client.sendall(first[9:])
    time.sleep(0.05)
    broker.sendall(b"\xd0\0" + publish_packet(b"answer/", b"run,0,ok,1000,20.00", False))
    time.sleep(0.1)
    found = list(packets.read())
    assert [(one.leaves, one.topic, one.payload[-6:]) for one in found] == [
        (True, b"request/", b"000000"), (True, b"request/", b"000001"), (True, b"request/", b"000000"),
        (False, b"answer/", b",20.00"),
    ]  # fmt: skip
    times = [one.stamp_ns for one in found]
    assert times == sorted(times)
    # Of a packet in two segments the last one counts.
    assert before_ns - 1_000_000 < times[2] < before_ns + 50_000_000 < times[3]
    assert packets.dropped == 0
    assert all(isinstance(one, Publish) and one.qos == 0 for one in found)
