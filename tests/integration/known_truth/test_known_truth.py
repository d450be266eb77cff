"""The instrument against known truth: what the proxy injected is what the run must report."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.loop_harness import Run, bridge, broker, measure
from support.mqtt_proxy import ImpairmentProxy, Rule, Truth

REQUESTS, ANSWERS = "to_broker", "to_client"
DELAY_LIMIT_US = 300.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with broker(tmp_path_factory.mktemp("broker")) as broker_port, bridge(broker_port):
        time.sleep(0.5)
        yield broker_port


def run_through(port: int, folder: Path, *rules: Rule, **variables: str) -> tuple[Run, Truth]:
    with ImpairmentProxy(("127.0.0.1", port), rules) as proxy:
        run = measure(folder, proxy.port, **variables)
    assert run.cell["sent"] == sum(run.cell[key] for key in ("answered", "late", "lost", "robot_errors"))
    assert len(run.samples) == run.cell["sent"]
    return run, proxy.truth


def lost(run: Run) -> list[int]:
    return [sequence for sequence, row in run.samples.items() if row["outcome"] == "lost"]


def test_nothing_injected_nothing_reported(port: int, tmp_path: Path) -> None:
    run, _ = run_through(port, tmp_path)
    cell = run.cell
    assert cell["answered"] == cell["sent"] == 200
    assert [cell[key] for key in ("lost", "late", "robot_errors", "duplicates", "out_of_order", "disconnects")] == [
        0
    ] * 6
    assert run.document["malformed"] == run.document["foreign"] == 0


@pytest.mark.parametrize(("direction", "delay_ms"), [(REQUESTS, 5), (ANSWERS, 12)])
def test_delay(port: int, tmp_path: Path, direction: str, delay_ms: int) -> None:
    """What is left of each O without what the proxy held that message does not know of the delay.

    Seen at the fifth fastest message: what else a busy machine adds, it adds to the others.
    """
    fastest_us = []
    for delay_us in (0, delay_ms * 1000):
        run, truth = run_through(port, tmp_path, Rule(impairment="delay", direction=direction, delay_us=delay_us))
        held_us = {
            entry["sequence"]: (entry["forwarded_ns"] - entry["arrived_ns"]) / 1000 for entry in truth.applied("delay")
        }
        assert len(held_us) == run.cell["answered"] == 200
        assert min(held_us.values()) >= delay_us
        rest_us = [run.overhead_us(sequence) - held for sequence, held in held_us.items()]
        fastest_us.append(sorted(rest_us)[4])
        overheads_us = sorted(run.overhead_us(sequence) for sequence in held_us)
        assert overheads_us[99] <= run.cell["O_us"]["p50"] <= overheads_us[100]
    print(f"the fifth fastest without what was held: {fastest_us} us")
    assert abs(fastest_us[1] - fastest_us[0]) < DELAY_LIMIT_US


def test_loss(port: int, tmp_path: Path) -> None:
    rules = [
        Rule(impairment="loss", direction=REQUESTS, probability=0.05, seed=3),
        Rule(impairment="loss", direction=ANSWERS, indexes=(7, 8, 50)),
    ]
    run, truth = run_through(port, tmp_path, *rules)
    wanted = sorted(truth.sequences("loss"))
    assert len(wanted) > 3
    assert lost(run) == wanted
    assert run.cell["lost"] == len(wanted)
    assert run.cell["answered"] == 200 - len(wanted)


def test_duplicates(port: int, tmp_path: Path) -> None:
    rules = [
        Rule(impairment="duplicate", direction=REQUESTS, every=20),
        Rule(impairment="duplicate", direction=ANSWERS, every=33),
    ]
    run, truth = run_through(port, tmp_path, *rules)
    assert run.cell["duplicates"] == len(truth.applied("duplicate"))
    assert run.cell["answered"] == 200


def test_reordering(port: int, tmp_path: Path) -> None:
    # Not the last one: a packet that waits for a successor which never comes is a lost packet.
    rule = Rule(impairment="reorder", direction=ANSWERS, indexes=(24, 49, 74, 99, 124, 149, 174))
    run, truth = run_through(port, tmp_path, rule)
    assert run.cell["out_of_order"] == len(truth.applied("reorder")) > 0
    assert run.cell["answered"] == 200


def test_stall_shows_in_what_was_due_during_it(port: int, tmp_path: Path) -> None:
    """A 300 ms stall: the schedule goes on, and T of each message due during it is what was left of it."""
    run, truth = run_through(
        port, tmp_path, Rule(impairment="stall", direction=REQUESTS, indexes=(60,), stall_ms=300), INTERVALS_MS="20"
    )
    assert len(truth.applied("stall")) == 1
    assert run.cell["answered"] == 200
    first_us = float(run.samples[60]["total_us"])
    assert first_us >= 300_000
    for sequence in range(60, 74):
        due_after_us = (int(run.samples[sequence]["sent_ns"]) - int(run.samples[60]["sent_ns"])) / 1000
        # Nothing that was due during the stall can be answered before its end.
        assert float(run.samples[sequence]["total_us"]) >= 299_000 - due_after_us, sequence
    # Lateness is not where the stall hides: the sender kept its schedule.
    late_us = [(int(run.samples[k]["sent_ns"]) - int(run.samples[k]["due_ns"])) / 1000 for k in range(60, 74)]
    assert statistics.median(late_us) < 20_000


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_disconnect(port: int, tmp_path: Path, qos: str) -> None:
    """The connection is reset in the middle: the run goes on, reports it once, and its counts add up."""
    rule = Rule(impairment="disconnect", direction=REQUESTS, indexes=(80,))
    run, truth = run_through(port, tmp_path, rule, QOS=qos, INTERVALS_MS="20")
    assert len(truth.applied("disconnect")) == 1
    assert run.cell["disconnects"] == 1
    assert all(run.samples[sequence]["outcome"] == "answered" for sequence in range(150, 200))
    if qos == "0":
        gone = lost(run)
        # What was due while there was no connection is lost, and nothing else.
        assert gone == list(range(gone[0], gone[-1] + 1)) if gone else True
        assert all(78 <= sequence < 150 for sequence in gone)


def test_late_answers_are_late_and_not_lost(port: int, tmp_path: Path) -> None:
    rule = Rule(impairment="stall", direction=ANSWERS, indexes=(100,), stall_ms=300)
    run, _ = run_through(port, tmp_path, rule, DEADLINE_MS="150")
    late = [sequence for sequence, row in run.samples.items() if row["outcome"] == "late"]
    assert run.cell["late"] == len(late) > 0
    assert run.cell["lost"] == 0
    assert all(float(run.samples[sequence]["total_us"]) > 150_000 for sequence in late)
