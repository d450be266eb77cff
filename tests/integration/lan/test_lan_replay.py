"""What is said again: a paired bridge's answer is counted and changes nothing, anything of others is refused."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.lan_broker import LanBroker, Visit
from support.loop_lab import LoopLab
from support.parts import Child, Listener, until
from support.robot_double import RobotDouble
from support.run_checks import Ledger, treatments

from looplab.experiments.loop.protocol import ONLINE, TOPIC_ANSWER

MESSAGES = 40


@pytest.mark.parametrize("who", ["bridge", "observer", "controller"])
def test_a_replayed_answer_is_a_bridges_duplicate_or_reaches_nobody(
    lan: LanBroker, insider: Listener, visit: Visit, robot: RobotDouble, start_bridge: Callable[..., Child],
    start_command: Callable[..., Child], at_end: contextlib.ExitStack, tmp_path: Path, who: str,
) -> None:  # fmt: skip
    """`who` says each answer of the Docker network again on the LAN, in a run over TLS at both ends."""
    start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    until(lambda: insider.bridge_status == ONLINE, "the bridge")
    ear = at_end.enter_context(contextlib.closing(Listener(lan.port, TOPIC_ANSWER)))
    visitor, said = visit(who), set()

    def say_again(_client: Any, _data: object, message: Any) -> None:
        if message.payload not in said:
            said.add(message.payload)
            visitor.client.publish(TOPIC_ANSWER, message.payload, 1)

    ear.client.on_message = say_again
    loop = at_end.enter_context(contextlib.closing(LoopLab(lan, robot, insider, start_command, tmp_path)))
    tls = {"BROKER_TLS": "on", "BROKER_PAIRING": str(lan.pairing_file("controller"))}
    once = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0", "INTERVALS_MS": "20"}
    loop.controller(**tls, **once).wait()
    run = Ledger(loop.run)
    assert said
    assert (run.cell["sent"], run.cell["answered"]) == (MESSAGES, MESSAGES)
    assert (0 < run.cell["duplicates"] <= MESSAGES) if who == "bridge" else run.cell["duplicates"] == 0
    for role in ("controller", "bridge"):
        found = treatments(run.document)[f"{role} TLS"]
        assert (found["found"], found["verified"]) == ("TLSv1.3", True)
    assert run.document["parameters"]["broker_tls"] is True
    # The kernel stamps encrypted bytes, the first of them those of the handshake: the parts of O add up.
    assert run.known()
