"""The instrument against known truth: the run must report what the proxy injected."""

import statistics
from collections.abc import Callable

import pytest
from support.loop_lab import LoopLab
from support.mqtt_proxy import TO_BROKER, TO_CLIENT, ImpairmentProxy, Rule
from support.parts import HOST
from support.run_checks import Run, check_sums

from looplab.experiments.loop.losses import CAUSES

MESSAGES = 200
# Less than 20 messages at QoS 2 then wait for the next connection: mosquitto throws away what is beyond.
AWAY_MS = 100
# By what share of the time held the machine may shift both the fastest and the median of 100 messages.
DELAY_LIMIT = 0.03
Measure = Callable[..., tuple[Run, ImpairmentProxy]]


@pytest.fixture
def measure(lab: LoopLab) -> Measure:
    """Return a function that runs 200 requests at 10 ms through a proxy with these rules."""
    lab.bridge()

    def run_through(*rules: Rule, **variables: str) -> tuple[Run, ImpairmentProxy]:
        settings = {"MESSAGES": str(MESSAGES), "REPETITIONS": "1", "WARMUP_MESSAGES": "0", **variables}
        before = set(lab.results.iterdir())
        with ImpairmentProxy((HOST, lab.broker.port), rules) as proxy:
            lab.controller(BROKER_PORT=str(proxy.port), **settings).wait()
        (folder,) = set(lab.results.iterdir()) - before
        run = Run(folder)
        check_sums(run.cell, MESSAGES)
        return run, proxy

    return run_through


def counts(run: Run, *names: str) -> list[int]:
    return [run.cell[name] for name in names]


def test_nothing_injected_nothing_reported(measure: Measure) -> None:
    run, _ = measure()
    assert run.cell["answered"] == MESSAGES
    assert counts(run, "duplicates", "out_of_order", "disconnects") == [0, 0, 0]
    assert run.document["malformed"] == run.document["foreign"] == 0


@pytest.mark.parametrize(("direction", "delay_ms"), [(TO_BROKER, 25), (TO_CLIENT, 12)])
def test_delay(measure: Measure, direction: str, delay_ms: int) -> None:
    """O less the time the proxy held a message is the same for short and long delays, in one run under one load."""
    run, proxy = measure(Rule(impairment="delay", direction=direction, jitter_us=2000 * delay_ms, seed=delay_ms))
    held_us = {injection.sequence: injection.held_ns / 1000 for injection in proxy.applied("delay")}
    assert sorted(held_us) == run.outcomes("answered") == list(range(MESSAGES))
    overheads_us = {sequence: float(run.samples[sequence]["overhead_us"]) for sequence in held_us}
    rest_us = {sequence: overheads_us[sequence] - held for sequence, held in held_us.items()}
    assert min(rest_us.values()) > 0
    by_delay = sorted(held_us, key=lambda sequence: held_us[sequence])
    halves = by_delay[: MESSAGES // 2], by_delay[MESSAGES // 2 :]
    short_us, long_us = ([rest_us[sequence] for sequence in half] for half in halves)
    # A wrong O shifts a half's fastest and its median alike; what a busy machine adds seldom shifts both.
    shifts_us = [measured(long_us) - measured(short_us) for measured in (min, statistics.median)]
    more_us = statistics.median(map(held_us.__getitem__, halves[1])) - statistics.median(
        map(held_us.__getitem__, halves[0])
    )
    print(f"the longer delays: {more_us} us more held, fastest and median of the rest shifted by {shifts_us} us")
    assert min(map(abs, shifts_us)) < DELAY_LIMIT * more_us
    ordered_us = sorted(overheads_us.values())
    assert ordered_us[99] <= run.cell["O_us"]["p50"] <= ordered_us[100]


def test_loss(measure: Measure) -> None:
    rules = [
        Rule(impairment="loss", direction=TO_BROKER, indexes=(5, 31, 32, 90, 140, 199)),
        Rule(impairment="loss", direction=TO_CLIENT, indexes=(7, 8, 50)),
    ]
    run, proxy = measure(*rules)
    wanted = sorted(injection.sequence for injection in proxy.applied("loss"))
    assert sum(lost.rule.direction == TO_CLIENT for lost in proxy.applied("loss")) == 3
    assert len(wanted) > 6
    assert run.outcomes("lost") == wanted
    assert run.cell["lost_by"] == {**dict.fromkeys(CAUSES, 0), "unknown": len(wanted)}
    assert counts(run, "lost", "answered") == [len(wanted), MESSAGES - len(wanted)]


def test_duplicates(measure: Measure) -> None:
    """Each of 10 requests that come twice has two answers; of those 210, each 33rd comes twice."""
    rules = [
        Rule(impairment="duplicate", direction=TO_BROKER, every=20),
        Rule(impairment="duplicate", direction=TO_CLIENT, every=33),
    ]
    run, proxy = measure(*rules)
    assert counts(run, "duplicates", "answered") == [10 + 6, MESSAGES]
    assert len(proxy.applied("duplicate")) == 10 + 6


@pytest.mark.parametrize(("impairment", "out_of_order"), [("reorder", 7), ("merge", 0)])
def test_pairs_of_answers(measure: Measure, impairment: str, out_of_order: int) -> None:
    """Answers that change places are counted; answers in one segment are two answers, the first one an interval old."""
    # Not the last one: its successor would never come.
    rule = Rule(impairment=impairment, direction=TO_CLIENT, indexes=(24, 49, 74, 99, 124, 149, 174))
    run, proxy = measure(rule)
    pairs = [(pair.sequence, pair.other) for pair in proxy.applied(impairment)]
    assert pairs == [(index, index + 1) for index in rule.indexes]
    assert counts(run, "out_of_order", "answered", "duplicates") == [out_of_order, MESSAGES, 0]
    held_us = [injection.held_ns / 1000 for injection in proxy.applied(impairment)]
    assert all(float(run.samples[first]["total_us"]) > held for (first, _), held in zip(pairs, held_us, strict=True))


def test_stall_shows_in_what_was_due_during_it(measure: Measure) -> None:
    """The schedule goes on, and T of each message due during the stall is at least what was left of it."""
    rule = Rule(impairment="stall", direction=TO_BROKER, indexes=(60,), stall_ms=300)
    run, proxy = measure(rule, INTERVALS_MS="20")
    (stall,) = proxy.applied("stall")
    assert (stall.sequence, stall.until_ns - stall.from_ns) == (60, 300_000_000)
    assert run.cell["answered"] == MESSAGES
    rows = {sequence: {name: int(row[name]) for name in ("due_ns", "sent_ns", "received_ns")}
            for sequence, row in run.samples.items()}  # fmt: skip
    # The proxy may come late to message 60 itself; those behind it wait, too.
    held = [sequence for sequence, row in rows.items() if rows[60]["sent_ns"] <= row["sent_ns"] < stall.until_ns]
    assert held == list(range(60, 60 + len(held)))
    during = sum(rows[sequence]["sent_ns"] >= stall.from_ns for sequence in held)
    assert 5 <= during <= 15, "a sender that waits for answers sends one"
    assert all(rows[sequence]["received_ns"] > stall.until_ns for sequence in held)
    # Before the stall, and clear of its end, answers come as ever.
    assert min(float(row["total_us"]) for row in run.samples.values()) < 100_000


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_disconnect(measure: Measure, qos: str) -> None:
    """The connection is reset and refused for a while: the run reports it once, and QoS 0 loses what was due then."""
    rule = Rule(impairment="disconnect", direction=TO_BROKER, indexes=(80,), away_ms=AWAY_MS)
    run, proxy = measure(rule, QOS=qos, INTERVALS_MS="20")
    (cut,) = proxy.applied("disconnect")
    assert cut.sequence == 80
    assert run.cell["disconnects"] == 1
    sent = {sequence: int(row["sent_ns"]) for sequence, row in run.samples.items()}
    before = [sequence for sequence in sent if sent[sequence] < cut.from_ns]
    # What was under way when the connection went: sent at most as long before as the slowest answer took.
    slowest_ns = max(float(run.samples[sequence]["total_us"] or 0) for sequence in before) * 1000
    under_way = [sequence for sequence in before if cut.from_ns - sent[sequence] <= slowest_ns]
    away = [sequence for sequence in sent if 0 <= sent[sequence] - cut.from_ns < AWAY_MS * 1_000_000]
    gone = run.outcomes("lost")
    assert run.cell["lost_by"] == {**dict.fromkeys(CAUSES, 0), "disconnected": len(gone)}
    if qos == "0":
        assert set(away) <= set(gone)
        # All that was lost lies together, from what was under way until a connection is back.
        until = max(gone)
        assert set(gone) <= {*under_way, *range(80, until + 1)}
        assert set(range(81, until + 1)) <= set(gone)
    else:
        # What is due without a connection waits for the next one, and its answer for the subscription.
        assert set(gone) <= {*under_way, 80}


def test_late_answers_are_late_and_not_lost(measure: Measure) -> None:
    rule = Rule(impairment="stall", direction=TO_CLIENT, indexes=(100,), stall_ms=300)
    run, proxy = measure(rule, DEADLINE_MS="150")
    (stall,) = proxy.applied("stall")
    late = run.outcomes("late")
    # Sent in the first half of the stall, an answer cannot come within 150 ms; half a second later it is over.
    surely = [
        sequence for sequence, row in run.samples.items()
        if 0 < int(row["sent_ns"]) - stall.from_ns < 150_000_000 or sequence == 100
    ]  # fmt: skip
    assert len(surely) > 1
    assert set(surely) <= set(late) <= set(range(100, 180))
    assert counts(run, "late", "lost") == [len(late), 0]
    assert all(float(run.samples[sequence]["total_us"]) > 150_000 for sequence in late)
