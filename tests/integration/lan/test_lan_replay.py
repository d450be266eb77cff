"""What is said again: a paired bridge's answer is counted and changes nothing, anything of others is refused."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.lan_broker import LanBroker, Visit
from support.loop_lab import LoopLab
from support.parts import LIMIT_S, Child, Listener, until
from support.robot_double import RobotDouble
from support.run_checks import Ledger

from looplab.experiments.loop.protocol import ONLINE, TOPIC_ANSWER

MESSAGES = 40
RunOnce = Callable[[], Ledger]


class Replayer:
    """Hears the answers on the plain listener, within the Docker network, and says each again as `who` on the LAN."""

    def __init__(self, lan: LanBroker, visitor: Listener) -> None:
        self._visitor = visitor
        self.said = 0
        self._insider = Listener(lan.port, TOPIC_ANSWER)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        done: set[bytes] = set()
        while not self._stop.wait(0.005):
            for payload in self._insider.payloads(TOPIC_ANSWER):
                if payload not in done:
                    done.add(payload)
                    self._visitor.say(TOPIC_ANSWER, payload)
                    self.said += 1

    def close(self) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)
        self._insider.close()


@pytest.fixture
def run(
    lan: LanBroker,
    insider: Listener,
    robot: RobotDouble,
    start_bridge: Callable[..., Child],
    start_command: Callable[..., Child],
    tmp_path: Path,
) -> Iterator[RunOnce]:
    """Return a function that runs E over TLS at both ends."""
    loop = LoopLab(lan, robot, insider, start_command, tmp_path)
    start_bridge(BROKER_PAIRING=str(lan.pairing_file()))
    until(lambda: insider.bridge_status == ONLINE, "the bridge")

    def run_once() -> Ledger:
        tls = {"BROKER_TLS": "on", "BROKER_PAIRING": str(lan.pairing_file("controller"))}
        once = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0"}
        loop.controller(**tls, **once, INTERVALS_MS="20").wait()
        return Ledger(loop.run)

    yield run_once
    loop.close()


def test_a_replayed_answer_of_a_bridge_counts_as_a_duplicate(lan: LanBroker, visit: Visit, run: RunOnce) -> None:
    replayer = Replayer(lan, visit("bridge"))
    document = run().document
    replayer.close()
    cell = document["cells"][0]
    assert (cell["sent"], cell["answered"]) == (MESSAGES, MESSAGES)
    assert 0 < cell["duplicates"] <= MESSAGES
    found = {entry["what"]: entry for entry in document["treatments"]}
    for role in ("controller", "bridge"):
        assert found[f"{role} TLS"]["found"] == "TLSv1.3"
        assert found[f"{role} TLS"]["verified"]
    assert document["parameters"]["broker_tls"] is True


@pytest.mark.parametrize("who", ["observer", "controller"])
def test_a_replayed_answer_of_anybody_else_reaches_nobody(lan: LanBroker, visit: Visit, run: RunOnce, who: str) -> None:
    replayer = Replayer(lan, visit(who))
    found = run()
    replayer.close()
    assert replayer.said > 0
    assert (found.cell["answered"], found.cell["duplicates"]) == (MESSAGES, 0)
    # The kernel stamps encrypted bytes, the first of them those of the handshake: the parts of O add up.
    assert found.known()
