"""CLIENTS=own and OWN_BRIDGE with real programs on loopback: those that keep the agreement, and those that do not."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.hardening import NUMBERS
from support.loop_lab import LoopLab, event, patched
from support.parts import python
from support.places import ROOT
from support.run_checks import check_run
from support.wire import call

needs_packets = pytest.mark.skipif(os.geteuid() != 0, reason="a packet socket needs root")
CONTROLLER = (ROOT / "docs/exercises/write-a-controller/controller.py").read_text()
BRIDGE = (ROOT / "docs/exercises/write-the-bridge/bridge.py").read_text()
NAMED = (
    "import runpy, sys; open('/proc/self/comm', 'w').write('lab-bridge'); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


def run(lab: LoopLab, program: Path, text: str, wanted: int = 0, **variables: str) -> dict[str, Any]:
    """Run `text` as the controller; return run.json."""
    lab.online_bridge(FIDELITY="thesis", TCP_NODELAY="on")
    program.write_text(text)
    settings = {"FIDELITY": "thesis", "TCP_NODELAY": "on", "CLIENTS": "own", "OWN_CLIENT": "x", **variables}
    child = lab.controller(OWN_PROGRAM=str(program), REPETITIONS="1", **settings)
    assert child.wait() == wanted, child.said()
    found: dict[str, Any] = json.loads((lab.run / "run.json").read_text())
    if not wanted:
        check_run(lab.run, found)
    return found


def treatment(found: dict[str, Any], what: str) -> str:
    return next(str(one["found"]) for one in found["treatments"] if one["what"] == what)


@needs_packets
def test_a_controller_of_twenty_lines_is_measured(lab: LoopLab, tmp_path: Path) -> None:
    # It sleeps between requests: a busy machine may make that longer by milliseconds, and a tenth is allowed.
    found = run(lab, tmp_path / "c.py", CONTROLLER, QOS="0 1", INTERVALS_MS="100", MESSAGES="8")
    assert [(cell["sent"], cell["answered"] + cell["late"]) for cell in found["cells"]] == [(8, 8)] * 2
    assert found["warmup"] == {"sent": 10, "answered": 10, "lost": 0}
    assert treatment(found, "own client's requests") == "all of them"
    assert all(0 < cell["O_us"]["p50"] < cell["T_us"]["p50"] for cell in found["cells"])
    assert len(found["own_client"]["sha256"]) == 64


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
    found = run(lab, tmp_path / "c.py", text, 1, DEADLINE_MS="200")
    assert words in treatment(found, "own client's requests")
    assert any("own client's requests" in reason for reason in found["invalid_because"])


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
    settings = {"FIDELITY": "thesis", "CLIENTS": "own", "OWN_CLIENT": "x"}
    child = lab.controller(command, OWN_PROGRAM=str(tmp_path / "c.py"), **settings)
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


def run_bridge(lab: LoopLab, program: Path, text: str, **variables: str) -> Any:
    program.write_text(text)
    bridge = lab.bridge([sys.executable, "-c", NAMED, str(program)])
    # The robot double runs in this process.
    lab.pids |= {"bridge": [bridge.pid], "robot": [os.getpid()]}
    settings = {"FIDELITY": "thesis", "TCP_NODELAY": "on", "COMMAND": "E", "OWN_BRIDGE": "x", "PARTS_TIMEOUT_S": "5"}
    return lab.controller(**{**settings, **variables})


def test_a_bridge_of_twenty_five_lines_is_measured(lab: LoopLab, tmp_path: Path) -> None:
    child = run_bridge(lab, tmp_path / "b.py", BRIDGE, INTERVALS_MS="20")
    code = child.wait()
    found = json.loads((lab.run / "run.json").read_text())
    assert code == 0, (child.said(), found["invalid_because"])
    assert [(cell["sent"], cell["answered"]) for cell in found["cells"]] == [(40, 40)]
    assert found["cells"][0]["R_us"]["n"] == 40


def test_a_bridge_that_answers_twice_has_an_invalid_run(lab: LoopLab, tmp_path: Path) -> None:
    text = BRIDGE.replace("    client.publish(", "    client.publish('answer/', 'nonsense')\n    client.publish(")
    child = run_bridge(lab, tmp_path / "b.py", text)
    assert child.wait() == 1
    found = json.loads((lab.run / "run.json").read_text())
    assert treatment(found, "own bridge's answers") == "40 malformed"
