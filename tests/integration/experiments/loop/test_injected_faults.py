"""The instrument against known truth: a run reports what was injected, and O has it in the part where it was."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import theilslopes
from support.loop_lab import LoopLab, patched
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule
from support.parts import HOST, bridge_command, python, until
from support.robot_double import answer_line
from support.run_checks import Ledger, check_sums

from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.losses import CAUSES
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST

MESSAGES = 200
# Less than 20 messages at QoS 2 then wait for the next connection: mosquitto throws away what is beyond.
AWAY_MS = 100
# What is lost is given up 1.1 s after it left.
SHORT = {"DEADLINE_MS": "100"}
Measure = Callable[..., tuple[Ledger, ImpairmentProxy]]


@pytest.fixture
def measure(kept: LoopLab) -> Measure:
    """Return a function that runs 200 requests at 10 ms through a proxy with these rules."""

    def run_through(*rules: Rule, **variables: str) -> tuple[Ledger, ImpairmentProxy]:
        settings = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0", **variables}
        with ImpairmentProxy((HOST, kept.broker.port), rules) as proxy:
            kept.controller(BROKER_PORT=str(proxy.port), **settings).wait()
        run = Ledger(kept.run)
        for cell in run.document["cells"]:
            check_sums(cell, int(settings["MESSAGES"]))
        return run, proxy

    return run_through


@pytest.mark.parametrize(("direction", "delay_ms"), [(TO_BROKER, 25), (TO_CLIENT, 12)])
def test_delay(measure: Measure, direction: str, delay_ms: int) -> None:
    """O grows by the time that the proxy held a message: in the half of them that a busy machine disturbs least."""
    run, proxy = measure(Rule(impairment="delay", direction=direction, jitter_us=2000 * delay_ms, seed=delay_ms))
    held_us = {injection.sequence: injection.held_ns / 1000 for injection in proxy.applied("delay")}
    assert sorted(held_us) == run.outcomes("answered") == list(range(MESSAGES))
    overheads_us = {sequence: float(run.samples[sequence]["overhead_us"]) for sequence in held_us}
    assert all(overheads_us[sequence] > held for sequence, held in held_us.items())
    calm = sorted(held_us, key=lambda sequence: overheads_us[sequence] - held_us[sequence])[: MESSAGES // 2]
    slope = theilslopes(*([of[sequence] for sequence in calm] for of in (overheads_us, held_us))).slope
    assert slope == pytest.approx(1, abs=0.03)
    ordered_us = sorted(overheads_us.values())
    assert ordered_us[99] <= run.cell["O_us"]["p50"] <= ordered_us[100]
    # What the proxy added is in the network's part, and in all in no other.
    known = run.known()
    assert all(run.part(sequence, "network") > held_us[sequence] for sequence in known)
    others_us = sum(run.part(sequence, name) for sequence in known for name in NAMES if name != "network")
    assert 0 < others_us < sum(held_us[sequence] for sequence in known)


def test_loss(measure: Measure) -> None:
    rules = [
        Rule(impairment="loss", direction=TO_BROKER, indexes=(5, 31, 32, 90, 140, 199)),
        Rule(impairment="loss", direction=TO_CLIENT, indexes=(7, 8, 50)),
    ]
    run, proxy = measure(*rules, **SHORT)
    wanted = sorted(injection.sequence for injection in proxy.applied("loss"))
    assert sum(lost.rule.direction == TO_CLIENT for lost in proxy.applied("loss")) == 3
    assert len(wanted) > 6
    assert run.outcomes("lost") == wanted
    assert run.cell["lost_by"] == {**dict.fromkeys(CAUSES, 0), "unknown": len(wanted)}
    assert run.cell["lost"] == len(wanted)


def test_each_cell_reports_what_was_injected_in_it(measure: Measure) -> None:
    """Nothing; answers that change places; two in one segment, the first one an interval old; some that come twice."""
    # Never the last one of a cell: its successor would come with the next cell.
    places = {name: tuple(range(first + 4, first + 49, 9)) for name, first in (("reorder", 50), ("merge", 100))}
    rules = [Rule(impairment=name, direction=TO_CLIENT, indexes=indexes) for name, indexes in places.items()]
    # Each of two requests that come twice has two answers; of the last cell's 52, three come twice.
    doubles = {TO_BROKER: (160, 170), TO_CLIENT: (155, 175, 195)}
    rules += [Rule(impairment="duplicate", direction=way, indexes=indexes) for way, indexes in doubles.items()]
    run, proxy = measure(*rules, MESSAGES="50", INTERVALS_MS="10 11 12 13", ORDER="published")
    assert [(cell["duplicates"], cell["out_of_order"], cell["disconnects"]) for cell in run.document["cells"]] == [
        (0, 0, 0), (0, 5, 0), (0, 0, 0), (5, 0, 0),
    ]  # fmt: skip
    assert run.outcomes("answered") == list(range(200))
    assert run.document["malformed"] == run.document["foreign"] == 0
    assert len(proxy.applied("duplicate")) == 5
    for name, indexes in places.items():
        pairs = proxy.applied(name)
        assert [(pair.sequence, pair.other) for pair in pairs] == [(index, index + 1) for index in indexes]
        assert all(float(run.samples[pair.sequence]["total_us"]) > pair.held_ns / 1000 for pair in pairs)


def test_stall_shows_in_what_was_due_during_it(measure: Measure) -> None:
    """The schedule goes on, and T of each message due during the stall is at least what was left of it."""
    rule = Rule(impairment="stall", direction=TO_BROKER, indexes=(20,), stall_ms=300)
    run, proxy = measure(rule, MESSAGES="60", INTERVALS_MS="20")
    (stall,) = proxy.applied("stall")
    assert (stall.sequence, stall.until_ns - stall.from_ns) == (20, 300_000_000)
    assert run.cell["answered"] == 60
    rows = {sequence: {name: int(row[name]) for name in ("due_ns", "sent_ns", "received_ns")}
            for sequence, row in run.samples.items()}  # fmt: skip
    # The proxy may come late to message 20 itself; those behind it wait, too.
    held = [sequence for sequence, row in rows.items() if rows[20]["sent_ns"] <= row["sent_ns"] < stall.until_ns]
    assert held == list(range(20, 20 + len(held)))
    during = sum(rows[sequence]["sent_ns"] >= stall.from_ns for sequence in held)
    assert 5 <= during <= 15, "a sender that waits for answers sends one"
    assert all(rows[sequence]["received_ns"] > stall.until_ns for sequence in held)
    # Before the stall, and clear of its end, answers come as ever.
    assert min(float(row["total_us"]) for row in run.samples.values()) < 100_000


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_disconnect(measure: Measure, qos: str) -> None:
    """The connection is reset and refused for a while: the run reports it once, and QoS 0 loses what was due then."""
    cut = Rule(impairment="disconnect", direction=TO_BROKER, indexes=(20,), away_ms=AWAY_MS)
    # It holds no answer: it notes which ones came so far.
    passing = Rule(impairment="delay", direction=TO_CLIENT)
    run, proxy = measure(cut, passing, QOS=qos, MESSAGES="60", INTERVALS_MS="20", **SHORT)
    (found,) = proxy.applied("disconnect")
    assert found.sequence == 20
    assert run.cell["disconnects"] == 1
    passed = {answer.sequence for answer in proxy.applied("delay")}
    gone = run.outcomes("lost")
    assert run.cell["lost_by"] == {**dict.fromkeys(CAUSES, 0), "disconnected": len(gone)}
    if qos == "0":
        # What was under way, however long, and what was due until a connection is back.
        assert gone == [sequence for sequence in run.samples if sequence not in passed]
        sent = {sequence: int(row["sent_ns"]) - found.from_ns for sequence, row in run.samples.items()}
        assert {sequence for sequence in sent if 0 <= sent[sequence] < AWAY_MS * 1_000_000} <= set(gone) != set()
    else:
        # What is due without a connection waits for the next one, and its answer for the subscription.
        assert all(int(run.samples[sequence]["sent_ns"]) < found.from_ns for sequence in gone)


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


@pytest.mark.parametrize("part", ["wake_up", "bridge_wake_up"])
def test_what_stands_still_has_a_long_wake_up(lab: LoopLab, part: str) -> None:
    """The controller is stopped while the robot is asked, the bridge between two requests.

    It goes on when its second message has been there for a while: no other part of any message is as long.
    """

    def answer(number: int, request: int) -> bytes:
        if number == 1 and part == "wake_up":
            controller.signal(signal.SIGSTOP)
        return answer_line(request, 2550)

    lab.robot.answer = answer
    bridge = lab.online_bridge()
    controller = lab.controller(COMMAND="T", **ONE_BY_ONE)
    stopped, topic = (controller, TOPIC_ANSWER) if part == "wake_up" else (bridge, TOPIC_REQUEST)
    if stopped is bridge:
        until(lambda: lab.listener.payloads(TOPIC_ANSWER), "the first answer")
        bridge.signal(signal.SIGSTOP)
    try:
        until(lambda: len(lab.listener.payloads(topic)) > 1, f"the second message on {topic}")
        time.sleep(STALL_S)
    finally:
        stopped.signal(signal.SIGCONT)
    controller.wait()
    run = Ledger(lab.run)
    assert 1 in run.known()
    assert {(s, name) for s in run.known() for name in NAMES if run.part(s, name) > FOUND_US} == {(1, part)}


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
