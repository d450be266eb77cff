"""What made a message get lost is put in, and found: each cause by itself, and nothing else."""

import re
import signal
import time

import numpy as np
import pytest
from support.loop_lab import OK, LoopLab, stand_in
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule
from support.parts import HOST, Listener, until
from support.robot_double import RobotDouble
from support.run_checks import Run, check_sums

from looplab.experiments.loop.protocol import TOPIC_REQUEST

SETTINGS = {"MESSAGES": "100", "REPETITIONS": "1", "WARMUP_MESSAGES": "0"}
# What is lost is given up 1.1 s after it left.
SHORT = {**SETTINGS, "DEADLINE_MS": "100"}
SLOWLY = {**SETTINGS, "MESSAGES": "60", "INTERVALS_MS": "20"}
# Beyond the end of a run with a deadline of 100 ms.
BEYOND_MS = 9000
INTERVAL_NS, STOPPED_NS = 20_000_000, 300_000_000
TIMES = ("sent_ns", "received_ns", "robot_us")
# R begins when a request reaches the bridge.
MOST_STALL_NS = 20_000_000


def lost_by(run: Run) -> dict[str, int]:
    """The causes of the first cell that were found; they add up."""
    check_sums(run.cell, run.document["parameters"]["messages"])
    found = run.cell["lost_by"]
    assert sum(found.values()) == run.cell["lost"]
    return {cause: count for cause, count in found.items() if count}


def measuring(listener: Listener, least: int = 20) -> None:
    """Wait until so many requests of the run were sent."""

    def sent() -> int:
        payloads = listener.payloads(TOPIC_REQUEST)
        return max((int(payload.split(b"-")[2]) for payload in payloads if re.match(b"[TE]-[^w]", payload)), default=0)

    until(lambda: sent() >= least, f"{least} requests")


@pytest.mark.parametrize("framing", ["raw", "burst"])
def test_by_count_each_later_answer_is_an_interval_late(lab: LoopLab, robot: RobotDouble, framing: str) -> None:
    """The robot gives the answers to 3 and 4 of ten requests together: as many of the last messages get none."""
    robot.answer = lambda number, _request: {3: b"", 4: b"20.00\r\n21.00\r\n"}.get(number % 10, b"20.00\r\n")
    settings = {"ROBOT_FRAMING": framing, "PAIRING": "count"}
    lab.bridge(**settings)
    lab.controller(COMMAND="T", **settings, **SLOWLY).wait()
    run = Run(lab.run)
    merged = run.document["bridge"]["counts"]["merged"]
    assert lost_by(run) == {"merged": merged}
    assert run.outcomes("lost") == list(range(60 - merged, 60))
    assert merged >= 6
    assert run.cell["beyond_interval"] >= 0.1
    assert (run.cell["response_us"]["n"], run.cell["response_us"]["max"]) == (60, None)
    sent, received, robot_us = ({k: row[name] for k, row in run.samples.items()} for name in TIMES)
    for k in range(3, 54 - merged):
        # So many have met before; a busy machine may make more of them meet.
        later = k + (k - 3) // 9 + 1
        assert int(received[k]) > int(sent[later])
        assert float(robot_us[k]) * 1000 > int(sent[later]) - int(sent[k]) - MOST_STALL_NS


@pytest.mark.parametrize("again", [True, False])
def test_a_bridge_that_is_killed(lab: LoopLab, again: bool) -> None:
    bridge = lab.bridge()
    child = lab.controller(**{**SHORT, "MESSAGES": "300" if again else "100"})
    measuring(lab.listener)
    bridge.kill()
    if again:
        lab.bridge()
    child.wait()
    run = Run(lab.run)
    gone = run.outcomes("lost")
    assert gone == list(range(gone[0], gone[-1] + 1))
    assert lost_by(run) == {"disconnected": len(gone)}
    # The treatments double does not know its process: what it reports shows the restart, as on another machine.
    found = {entry["what"]: entry["found"] for entry in run.document["treatments"]}
    assert found["bridge process"].startswith("restarted 1 x") is again


def test_a_bridges_network_that_is_cut_unnoticed(lab: LoopLab) -> None:
    """The bridge connects again at once: the broker publishes no last will that the controller would see first."""
    cut = Rule(impairment="disconnect", direction=TO_CLIENT, topic=TOPIC_REQUEST, indexes=(40,), away_ms=100)
    with ImpairmentProxy((HOST, lab.broker.port), [cut]) as proxy:
        lab.bridge(BROKER_PORT=str(proxy.port))
        lab.controller(**SHORT).wait()
    run = Run(lab.run)
    assert lost_by(run) == {"disconnected": run.cell["lost"]}
    assert run.cell["lost"] > 0
    found = {entry["what"]: entry["found"] for entry in run.document["treatments"]}
    assert found["connection of the controller"] == "kept"
    assert found["connection of the bridge"].startswith("lost 1 x: it was ")
    assert [why for why in run.document["invalid_because"] if why.startswith("connection of the bridge: wanted kept, ")]


def test_messages_that_never_left_have_no_cause(kept: LoopLab) -> None:
    """At QoS 1 no more than 20 may be unconfirmed; the others stay at the sender while the broker is silent."""
    stall = Rule(impairment="stall", direction=TO_BROKER, indexes=(50,), stall_ms=BEYOND_MS)
    with ImpairmentProxy((HOST, kept.broker.port), [stall]) as proxy:
        kept.controller(BROKER_PORT=str(proxy.port), QOS="1", **SHORT).wait()
    run = Run(kept.run)
    assert lost_by(run) == {"unknown": run.cell["lost"]}
    assert run.cell["lost"] > 40


def test_an_answer_after_limit_and_run_has_expired(lab: LoopLab) -> None:
    """The bridge is frozen from the middle of the run until long after the last message's limit of 1.1 s."""
    bridge = lab.bridge()
    child = lab.controller(**SHORT)
    measuring(lab.listener, 50)
    bridge.signal(signal.SIGSTOP)
    time.sleep(2.4)
    bridge.signal(signal.SIGCONT)
    child.wait()
    run = Run(lab.run)
    assert run.cell["lost"] > 0
    assert lost_by(run) == {"expired": run.cell["lost"]}


def test_late_or_lost_does_not_depend_on_the_cells_place(lab: LoopLab) -> None:
    """An answer within 1.1 s counts as late in either cell, one after that in neither."""
    released: list[str] = []
    listener = Listener(lab.broker.port, TOPIC_REQUEST)

    def reply(_run: str, sequence: int) -> list[str]:
        # 5 and 25 are answered 0.4 s later; 6 of the first cell when the second one begins, beyond its time.
        if sequence in (5, 25, 6):
            released.append(f"{{run}},{sequence},ok,1000,20.00")
            return []
        due = [text for text in released if (sequence in (15, 35) and ",6," not in text) or sequence == 20]
        released[:] = [text for text in released if text not in due]
        return [OK, *due]

    stand_in(listener, reply)
    settings = {**SHORT, "MESSAGES": "20", "INTERVALS_MS": "40 30", "ORDER": "published"}
    child = lab.controller(**settings)
    child.wait()
    listener.close()
    run = Run(lab.run)
    late = run.outcomes("late")
    # A busy machine may answer others late, too.
    assert {5, 25} <= {*late}, child.said()
    assert run.outcomes("lost") == [6]
    counts = [(sum(number < 20 for number in late), 1), (sum(number >= 20 for number in late), 0)]
    assert [(cell["late"], cell["lost"]) for cell in run.document["cells"]] == counts
    assert run.document["expired"] == 1
    assert lost_by(run) == {"expired": 1}


@pytest.mark.parametrize("pacing", ["sleep", "schedule"])
def test_a_stalled_sender_sleeps_on_or_catches_up(kept: LoopLab, pacing: str) -> None:
    child = kept.controller(PACING=pacing, **SLOWLY)
    measuring(kept.listener)
    child.signal(signal.SIGSTOP)
    time.sleep(STOPPED_NS / 1e9)
    child.signal(signal.SIGCONT)
    child.wait()
    run = Run(kept.run)
    assert run.document["parameters"]["pacing"] == pacing
    names = ("sent_ns", "due_ns", "intended_ns")
    sent, due, intended = (np.array([int(row[name]) for row in run.samples.values()]) for name in names)
    assert set(np.diff(intended)) == {INTERVAL_NS}
    assert run.cell["schedule_lateness_us"]["max"] == max(sent - intended) / 1000
    assert max(np.diff(sent)) > STOPPED_NS
    if pacing == "sleep":
        assert min(np.diff(sent)) >= INTERVAL_NS
        # Due is an interval after the one before had left, so one message alone bears the stall.
        assert min(due[1:] - sent[:-1]) >= INTERVAL_NS
        assert max(sent - due) > STOPPED_NS - INTERVAL_NS
        # No message after the stall makes up for it.
        assert sent[-1] - intended[-1] > STOPPED_NS - INTERVAL_NS
    else:
        assert list(due) == list(intended)
        assert sum(np.diff(sent) < INTERVAL_NS / 2) >= 5
