"""Other clients than the lab's on loopback: CLIENTS=printed, and programs of one's own that keep no agreement.

Those that keep it: test_e2e_own_programs.py.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hardening import NUMBERS
from support.loop_lab import LoopLab, event, patched
from support.parts import HOST, Child, TreatmentsDouble, python, until
from support.places import ROOT
from support.run_checks import check_run, treatments
from support.wire import call

from looplab.experiments.loop import CLIENTS
from looplab.experiments.loop.printed.wire import WatchedClients
from looplab.mqtt.packets import publish_packet
from looplab.system import processes

needs_packets = pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs root")


@pytest.fixture
def run(lab: LoopLab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that runs the printed clients in this Python, 40 messages a cell, and returns run.json."""
    lab.treatments.close()

    def pids() -> dict[str, list[int]]:
        """The programs come and go."""
        own = [pid for name in CLIENTS.comms for pid in processes.named(name)]
        return {**lab.pids, "broker": [lab.broker.pid], CLIENTS.name: own}

    lab.treatments = TreatmentsDouble(pids, lab.fifo)
    monkeypatch.setenv("PRINTED_CLIENTS", str(ROOT / "images/printed"))

    def run_to_its_end(**variables: str) -> dict[str, Any]:
        # The tests' broker has TCP_NODELAY.
        settings = {"FIDELITY": "printed", "TCP_NODELAY": "on", "BROKER_PATH": "direct", "PYTHON": "3"}
        child = lab.controller(**settings, **variables)
        assert child.wait() == 0, child.said()
        found: dict[str, Any] = json.loads((lab.run / "run.json").read_text())
        check_run(lab.run, found)
        assert [(cell["sent"], cell["answered"]) for cell in found["cells"]] == [(40, 40)] * 2
        return found

    return run_to_its_end


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
def test_each_repetition_has_processes_of_its_own(lab: LoopLab, run: Callable[..., dict[str, Any]]) -> None:
    lab.online_bridge(FIDELITY="printed", TCP_NODELAY="on")
    found = run(QOS="0 1", PRIORITY_CONTROLLER="99")
    own = treatments(found)
    assert own["client processes"]["found"] == "8"
    # As published: what the flags permit is the programs', not the controller's alone.
    assert own["clients may use real-time priority"]["found"].endswith("SYS_NICE effective")
    assert found["warmup"] == {"sent": 0, "answered": 0}
    for cell in found["cells"]:
        assert cell["client_O_us"]["avg"] > cell["O_us"]["avg"]


@needs_packets
def test_one_process_a_run_sleeps_and_has_a_warm_up(lab: LoopLab, run: Callable[..., dict[str, Any]]) -> None:
    lab.online_bridge(FIDELITY="corrected")
    bridge = {"QOS_LEGS": "all", "ROBOT_FRAMING": "line", "PAIRING": "request"}
    found = run(RECEIVER="select", LIFE="run", QOS="0 2", **bridge)
    own = treatments(found)
    assert own["client processes"]["found"] == "2"
    assert own["controller's subscription to answer/"]["found"] == "QoS 2"
    # Five at each QoS.
    assert found["warmup"] == {"sent": 10, "answered": 10, "lost": 0}


CONTROLLER = (ROOT / "docs/exercises/write-a-controller/controller.py").read_text()
BRIDGE = (ROOT / "docs/exercises/write-the-bridge/bridge.py").read_text()
NAMED = (
    "import runpy, sys; open('/proc/self/comm', 'w').write('lab-bridge'); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
OWN_CLIENT = {"FIDELITY": "thesis", "CLIENTS": "own", "OWN_CLIENT": "x"}


def invalid_run(lab: LoopLab, controller: Child) -> dict[str, Any]:
    """Return run.json of a run that ends as INVALID."""
    assert controller.wait() == 1, controller.said()
    return dict(json.loads((lab.run / "run.json").read_text()))


@needs_packets
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('f"{request}-{k}"', '"hello"', "were no request that was asked for, or sent again, as 'hello'"),
        ("    time.sleep(interval_s)", "    [client.publish('request/', 'flood') for _ in range(9)]", "'flood'"),
        ("\ntime.sleep(1)", "    if k == first + 9 and '-w' not in request: raise SystemExit('tired')\n", "10 of 20"),
    ],
)  # fmt: skip
def test_a_controller_that_breaks_the_agreement_has_a_run_that_says_how(
    lab: LoopLab, tmp_path: Path, old: str, new: str, words: str
) -> None:
    # The rehearsal before the first cell goes well: its requests have another token.
    text = CONTROLLER.replace(old, f"{new}" if "hello" not in new else f"({old} if '-w' in request else {new})")
    (tmp_path / "c.py").write_text(text)
    lab.online_bridge(FIDELITY="thesis", TCP_NODELAY="on")
    settings = {**OWN_CLIENT, "TCP_NODELAY": "on", "REPETITIONS": "1", "DEADLINE_MS": "200"}
    found = invalid_run(lab, lab.controller(OWN_PROGRAM=str(tmp_path / "c.py"), **settings))
    assert any(why.startswith("own client's requests") and words in why for why in found["invalid_because"])
    assert len(found["own_client"]["sha256"]) == 64


@needs_packets
@pytest.mark.parametrize(
    ("text", "words"),
    [("print('off we go'); import no_such_thing", "no_such_thing"), ("import time; time.sleep(99)", "none")],
)
def test_a_controller_that_never_sends_ends_the_run_with_its_own_words(
    lab: LoopLab, tmp_path: Path, text: str, words: str
) -> None:
    lab.online_bridge(FIDELITY="thesis", TCP_NODELAY="on")
    (tmp_path / "c.py").write_text(text)
    soon = "from looplab.experiments.loop import own_programs; own_programs.START_NS = 2 * 10**9; "
    command = patched(python("looplab.experiments", "loop"), soon)
    child = lab.controller(command, OWN_PROGRAM=str(tmp_path / "c.py"), **OWN_CLIENT)
    assert child.wait() == 1
    error = event(child, "error")
    assert "sent no request" in error["message"]
    assert error["message"].count(words) == 1


@needs_packets
def test_a_program_has_none_of_the_controllers_capabilities() -> None:
    code = (
        "import subprocess; from looplab.system.own_process import drop_capabilities\n"
        "for first in (None, drop_capabilities):\n"
        "    subprocess.run(['grep', '-E', 'Cap(Prm|Eff|Amb)', '/proc/self/status'], preexec_fn=first, check=True)"
    )
    # As in a container: root's own rights do not count.
    as_there = ["setpriv", "--securebits=+noroot", "--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw"]
    held = [int(word, 16) for word in call(*as_there, sys.executable, "-c", code).split()[1::2]]
    assert held == [1 << NUMBERS["NET_RAW"]] * 3 + [0] * 3


def test_a_bridge_that_answers_twice_has_an_invalid_run(lab: LoopLab, tmp_path: Path) -> None:
    text = BRIDGE.replace("    client.publish(", "    client.publish('answer/', 'nonsense')\n    client.publish(")
    (tmp_path / "b.py").write_text(text)
    bridge = lab.bridge([sys.executable, "-c", NAMED, str(tmp_path / "b.py")])
    # The robot double runs in this process.
    lab.pids |= {"bridge": [bridge.pid], "robot": [os.getpid()]}
    settings = {"FIDELITY": "thesis", "TCP_NODELAY": "on", "OWN_BRIDGE": "x", "PARTS_TIMEOUT_S": "5"}
    assert any("40 malformed" in why for why in invalid_run(lab, lab.controller(**settings))["invalid_because"])
