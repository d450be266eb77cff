"""What O is made of, against known truth: each delay is found in the part where it was put in."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.loop_lab import LoopLab, patched
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule
from support.parts import HOST, bridge_command, python, until
from support.robot_double import answer_line
from support.run_checks import Ledger

from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST

# Shorter than the pause after which the bridge publishes its counts: they would come in with the answer.
STALL_S = 0.2
# A message may be on its way for a part of the stall, on a busy machine.
FOUND_US = 0.7 * STALL_S * 1e6
# A kernel that knows no time stamps.
OLD_KERNEL = "from looplab.mqtt import kernel_stamps as k; k.SO_TIMESTAMPING = 9999; "
# Another machine's monotonic clock, eleven days ahead.
FAR_CLOCK = "import time as t; now = t.perf_counter_ns; t.perf_counter_ns = lambda: now() + 10**15; "
ONE_BY_ONE = {"INTERVALS_MS": "700", "MESSAGES": "3", "REPETITIONS": "1", "WARMUP_MESSAGES": "0"}


@pytest.mark.parametrize(("nodelay", "clock"), [("on", ""), ("off", ""), ("on", FAR_CLOCK)])
def test_the_parts_add_up_at_every_qos(lab: LoopLab, nodelay: str, clock: str) -> None:
    """With Nagle's algorithm, at QoS 1 and 2 and on a busy machine several messages come in with one read.

    Only durations travel: a bridge may have a clock of its own, as one on another machine.
    """
    lab.bridge(patched(bridge_command(), clock), TCP_NODELAY=nodelay)
    lab.listener.wait_online()
    lab.controller(QOS="0,1,2", TCP_NODELAY=nodelay, MESSAGES="25").wait()
    run = Ledger(lab.run)
    known = run.known()
    parts_us = [run.part(sequence, name) for sequence in known for name in NAMES]
    assert 0 <= min(parts_us) <= max(parts_us) < 2e6
    assert sum(cell["ledger_us"]["network"]["n"] for cell in run.document["cells"]) == len(known)
    # At QoS 1 the broker acknowledges late (40 ms), and until then Nagle lets no second small message leave.
    held = [s for s, row in run.transport.items() if float(row["send_path_us"] or 0) > 5000]
    assert len(held) > 10 or nodelay == "on"


@pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
def test_a_delay_on_the_way_is_network(kept: LoopLab, direction: str) -> None:
    rule = Rule(impairment="delay", direction=direction, jitter_us=20_000, seed=5)
    with ImpairmentProxy((HOST, kept.broker.port), [rule]) as proxy:
        kept.controller(BROKER_PORT=str(proxy.port), MESSAGES="30", INTERVALS_MS="30").wait()
    run = Ledger(kept.run)
    held_us = {found.sequence: found.held_ns / 1000 for found in proxy.applied("delay")}
    known = [sequence for sequence in run.known() if sequence in held_us]
    for sequence in known:
        assert run.part(sequence, "network") > held_us[sequence]
    # What the proxy added in all is in no other part.
    others = sum(run.part(sequence, name) for sequence in known for name in NAMES if name != "network")
    assert others < sum(held_us[sequence] for sequence in known)


def test_a_controller_that_stands_still_has_a_long_wake_up(online: LoopLab) -> None:
    """It is stopped while the robot is asked, and goes on when the answer has been there for a while."""
    stopped = []

    def answer(number: int, request: int) -> bytes:
        if number == 1:
            controller.process.send_signal(signal.SIGSTOP)
            stopped.append(number)
        return answer_line(request, 2550)

    online.robot.answer = answer
    controller = online.controller(COMMAND="T", **ONE_BY_ONE)
    go_on(online, controller, TOPIC_ANSWER, stopped)
    check_stall(online, controller, "wake_up")


def test_a_bridge_that_stands_still_has_a_long_wake_up(lab: LoopLab) -> None:
    """It is stopped between two requests, and goes on when the next has been there for a while."""
    bridge = lab.online_bridge()
    stopped: list[int] = []
    controller = lab.controller(**ONE_BY_ONE)
    until(lambda: lab.listener.payloads(TOPIC_ANSWER), "the first answer")
    bridge.process.send_signal(signal.SIGSTOP)
    stopped.append(1)
    go_on(lab, bridge, TOPIC_REQUEST, stopped)
    check_stall(lab, controller, "bridge_wake_up")


def go_on(lab: LoopLab, stopped: Any, topic: str, when: list[int]) -> None:
    """Let `stopped` go on STALL_S after the second message on `topic`."""
    try:
        until(lambda: when, "the stop")
        until(lambda: len(lab.listener.payloads(topic)) > 1, f"the second message on {topic}")
        time.sleep(STALL_S)
    finally:
        stopped.process.send_signal(signal.SIGCONT)


def check_stall(lab: LoopLab, controller: Any, part: str) -> None:
    """The second message's stall is in this part, and no other part of any message is as long."""
    controller.wait()
    run = Ledger(lab.run)
    assert 1 in run.known()
    long = {(s, name) for s in run.known() for name in NAMES if run.part(s, name) > FOUND_US}
    assert long == {(1, part)}


@pytest.mark.parametrize("old", ["controller", "bridge"])
def test_without_kernel_stamps_there_is_no_ledger(lab: LoopLab, old: str) -> None:
    commands: dict[str, Callable[..., Any]] = {"bridge": lab.bridge, "controller": lab.controller}
    words = {"bridge": bridge_command(), "controller": python("looplab.experiments", "loop")}
    words[old] = patched(words[old], OLD_KERNEL)
    commands["bridge"](words["bridge"])
    lab.listener.wait_online()
    commands["controller"](words["controller"]).wait()
    run = Ledger(lab.run)
    assert run.known() == []
    assert all(row["network_us"] == "" for row in run.transport.values())
    mine, others = ("", "bridge_") if old == "controller" else ("bridge_", "")
    assert {row[f"{mine}wake_up_us"] + row[f"{mine}send_path_us"] for row in run.transport.values()} == {""}
    assert any(row[f"{others}wake_up_us"] for row in run.transport.values())
    assert run.cell["ledger_us"]["network"]["n"] == 0
    assert run.cell["ledger_us"]["network"]["avg"] is None
    assert run.cell["transport_O_us"]["n"] == 39
