"""The instrument against known truth: the run must report what the proxy injected."""

from collections.abc import Callable

import pytest
from scipy.stats import theilslopes
from support.loop_lab import LoopLab
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule
from support.parts import HOST
from support.run_checks import Run, check_sums

from looplab.experiments.loop.losses import CAUSES

MESSAGES = 200
# Less than 20 messages at QoS 2 then wait for the next connection: mosquitto throws away what is beyond.
AWAY_MS = 100
# What is lost is given up 1.1 s after it left.
SHORT = {"DEADLINE_MS": "100"}
# By what share of the time held the machine may change the median slope.
DELAY_LIMIT = 0.03
Measure = Callable[..., tuple[Run, ImpairmentProxy]]


@pytest.fixture
def measure(kept: LoopLab) -> Measure:
    """Return a function that runs 200 requests at 10 ms through a proxy with these rules."""

    def run_through(*rules: Rule, **variables: str) -> tuple[Run, ImpairmentProxy]:
        settings = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0", **variables}
        with ImpairmentProxy((HOST, kept.broker.port), rules) as proxy:
            kept.controller(BROKER_PORT=str(proxy.port), **settings).wait()
        run = Run(kept.run)
        for cell in run.document["cells"]:
            check_sums(cell, int(settings["MESSAGES"]))
        return run, proxy

    return run_through


@pytest.mark.parametrize(("direction", "delay_ms"), [(TO_BROKER, 25), (TO_CLIENT, 12)])
def test_delay(measure: Measure, direction: str, delay_ms: int) -> None:
    """O grows by the time that the proxy held a message; a busy machine disturbs few of 200 messages."""
    run, proxy = measure(Rule(impairment="delay", direction=direction, jitter_us=2000 * delay_ms, seed=delay_ms))
    held_us = {injection.sequence: injection.held_ns / 1000 for injection in proxy.applied("delay")}
    assert sorted(held_us) == run.outcomes("answered") == list(range(MESSAGES))
    overheads_us = {sequence: float(run.samples[sequence]["overhead_us"]) for sequence in held_us}
    assert all(overheads_us[sequence] > held for sequence, held in held_us.items())
    slope = theilslopes([*overheads_us.values()], [*held_us.values()]).slope
    assert slope == pytest.approx(1, abs=DELAY_LIMIT)
    ordered_us = sorted(overheads_us.values())
    assert ordered_us[99] <= run.cell["O_us"]["p50"] <= ordered_us[100]


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
