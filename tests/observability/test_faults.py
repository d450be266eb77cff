"""What breaks while a run goes on, and that neither the run nor the view minds for long."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from observed_lab import Lab, fill, observed, targets, until

RECOVERY_S = 5


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Lab]:
    """A lab of its own, because parts of it get killed."""
    with observed(tmp_path) as lab:
        yield lab


def sent(lab: Lab) -> int:
    found = lab.query('sum(loop_messages_sent_total{scenario="scenario1"})')
    return int(float(found[0]["value"][1])) if found else 0


def test_exporter_and_prometheus_killed_during_a_run(fresh: Lab) -> None:
    run = fresh.run("scenario1", MESSAGES=1000, INTERVALS_MS="20")
    until(lambda: sent(fresh) > 50, 20, "the run is seen")
    fresh.stop("exporter", signal.SIGKILL)
    time.sleep(2)
    fresh.start("exporter")
    before = sent(fresh)
    until(lambda: sent(fresh) > before + 50, RECOVERY_S + 1, "the view goes on after the exporter's death")
    fresh.stop("prometheus", signal.SIGKILL)
    time.sleep(1)
    fresh.start("prometheus")
    started = time.monotonic()
    until(lambda: fresh.query('up{job="live"} == 1'), 20, "Prometheus is back")
    until(lambda: sent(fresh) > before + 100, RECOVERY_S, "the view goes on after Prometheus's death")
    assert time.monotonic() - started < 20
    assert run.wait(60) in (0, 1), fresh.log("controller")
    document = json.loads(next(fresh.results.glob("*-scenario1/run.json")).read_text())
    (cell,) = document["cells"]
    assert (cell["sent"], cell["answered"], cell["lost"]) == (1000, 1000, 0)
    whole = 'sum(loop_messages_total{scenario="scenario1",outcome="answered"}) == 1000'
    until(lambda: fresh.query(whole), 5, "the finished run, whole")


def test_three_runs_one_after_another_then_everything_restarted(fresh: Lab) -> None:
    for scenario in ("scenario1", "scenario2", "scenario4"):
        fresh.run_to_its_end(scenario)
    for name in ("prometheus", "exporter", "bridge", "broker"):
        fresh.stop(name, signal.SIGKILL)
    fresh.start("broker", "bridge", "exporter", "prometheus")
    panel = next(p for name, p, _t in targets() if "Figure 6.4" in p["title"])
    expression = fill(panel["targets"][0]["expr"])

    def drawn() -> bool:
        names = {one["metric"]["series"].split()[0] for one in fresh.query(expression)}
        return names == {"scenario1", "scenario2", "scenario4"}

    until(drawn, 25, "all three are drawn again")


def test_broker_metrics_are_absent_while_it_is_down(fresh: Lab) -> None:
    until(lambda: fresh.query("lab_broker_uptime_seconds"), 10, "the broker speaks")
    fresh.stop("broker", signal.SIGKILL)
    until(lambda: fresh.query("lab_broker_up == 0"), 8, "the broker is told down")
    assert not fresh.query("lab_broker_clients_connected")
    assert not fresh.query("lab_bridge_online")
    fresh.start("broker")
    until(lambda: fresh.query("lab_broker_up == 1 and lab_bridge_online == 1"), 10, "broker and bridge are back")


def test_broker_that_hangs_is_told_down(fresh: Lab) -> None:
    until(lambda: fresh.query("lab_broker_up == 1"), 10, "the broker speaks")
    broker = fresh._processes["broker"]
    broker.send_signal(signal.SIGSTOP)
    try:
        until(lambda: fresh.query("lab_broker_up == 0"), 10, "the hanging broker is told down")
    finally:
        broker.send_signal(signal.SIGCONT)
    until(lambda: fresh.query("lab_broker_up == 1"), 10, "the broker speaks again")


def test_damaged_runs_are_named_once_and_the_view_stands(fresh: Lab) -> None:
    whole = fresh.run_to_its_end("scenario1")
    for number, content in enumerate(('{"schema": 1', '{"schema": 1, "scenario": "scenario1", "fidelity": "thesis"}')):
        damaged = fresh.results / f"2099010{number + 1}T000000Z-scenario1"
        damaged.mkdir()
        (damaged / "samples.csv").write_bytes((whole / "samples.csv").read_bytes()[:500])
        (damaged / "run.json").write_text(content)
    until(lambda: fresh.query("lab_damaged_runs == 2"), 40, "two damaged runs are counted")
    assert fresh.query(f'loop_run_info{{run_id="{whole.name}"}}')
    for number in (1, 2):
        assert fresh.log("exporter").count(f"2099010{number}T000000Z-scenario1") == 1


def test_an_interrupted_run_leaves_the_view_and_the_next_one_takes_it(fresh: Lab) -> None:
    run = fresh.run("scenario1", MESSAGES=1000, INTERVALS_MS="20")
    until(lambda: sent(fresh) > 20, 20, "the run is seen")
    run.send_signal(signal.SIGTERM)
    assert run.wait(20) == 1
    until(lambda: not fresh.query("loop_run_active == 1"), 5, "no run is active")
    fresh.run_to_its_end("scenario1")
    until(lambda: sent(fresh) == 80, 5, "the next run is seen")
