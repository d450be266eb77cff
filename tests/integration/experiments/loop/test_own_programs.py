"""CLIENTS=own and OWN_BRIDGE with programs that do not keep the agreement; those that do: test_e2e_own_programs.py."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.hardening import NUMBERS
from support.loop_lab import LoopLab, event, patched
from support.parts import Child, python
from support.places import ROOT
from support.wire import call

needs_packets = pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs root")
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
