"""What breaks while a run goes on, and that neither the run nor the view minds for long."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.observed_lab import PARTS, Lab, fill, observed, targets
from support.waiting import until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One for these tests alone, because parts of it get killed."""
    with observed(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[Lab]:
    """One whose Prometheus has never been killed: what it knew before then stays for minutes."""
    with observed(tmp_path) as made:
        yield made


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Lab:
    """All parts at work, whatever the test before has killed; each test has scenarios of its own."""
    if getattr(request.node, "execution_count", 1) > 1:
        # The first attempt may have left runs of its scenarios behind.
        return request.getfixturevalue("own_lab")
    shared: Lab = request.getfixturevalue("shared")
    shared.make_whole()
    return shared


def number(lab: Lab, expression: str) -> int:
    """The one value of an expression, 0 where it has none."""
    found = lab.query(expression)
    return int(float(found[0]["value"][1])) if found else 0


def sent(lab: Lab, scenario: str) -> int:
    return number(lab, f'sum(lab_messages_sent_total{{scenario="{scenario}"}})')


def test_exporter_and_prometheus_killed_during_a_run(lab: Lab) -> None:
    messages = 1000
    run = lab.run("scenario5", MESSAGES=messages, INTERVALS_MS="10")

    def goes_on(after: int, by: int) -> bool:
        # A run that ended meanwhile has gone as far as it could.
        return sent(lab, "scenario5") >= min(after + by, messages)

    until(lambda: goes_on(0, 50), "the run is seen")
    lab.stop("exporter", signal.SIGKILL)
    time.sleep(2)
    lab.start("exporter")
    before = sent(lab, "scenario5")
    until(lambda: goes_on(before, 50), "the view goes on after the exporter's death")
    lab.stop("prometheus", signal.SIGKILL)
    time.sleep(1)
    lab.start("prometheus")
    until(lambda: lab.query('up{job="live"} == 1'), "Prometheus is back")
    until(lambda: goes_on(before, 100), "the view goes on after Prometheus's death")
    assert run.wait(60) in (0, 1), lab.log("controller")
    document = json.loads(next(lab.results.glob("*-scenario5/run.json")).read_text())
    (cell,) = document["cells"]
    assert cell["sent"] == cell["answered"] + cell["late"] == messages
    whole = f'sum(lab_messages_total{{scenario="scenario5",outcome="answered"}}) == {cell["answered"]}'
    until(lambda: lab.query(whole), "the finished run, whole")


def test_three_runs_one_after_another_then_everything_restarted(lab: Lab) -> None:
    wanted = {"scenario1", "scenario2", "scenario4"}
    for scenario in sorted(wanted):
        folder = lab.run_to_its_end(scenario)
        until(lambda: lab.query(f'lab_run_valid{{run_id="{folder.name}"}}'), "the run has ended")  # noqa: B023
    for name in reversed(PARTS):
        lab.stop(name, signal.SIGKILL)
    lab.start(*PARTS)
    panel = next(p for name, p, _t in targets() if "Figure 6.4" in p["title"])
    expression = fill(panel["targets"][0]["expr"])

    def drawn() -> bool:
        names = {one["metric"]["series"].partition(":")[0] for one in lab.query(expression)}
        return wanted <= names

    until(drawn, "all three are drawn again")


def test_broker_metrics_are_absent_while_it_is_down(own_lab: Lab) -> None:
    until(lambda: own_lab.query("lab_broker_uptime_seconds"), "the broker speaks")
    own_lab.stop("broker", signal.SIGKILL)
    until(lambda: own_lab.query("lab_broker_up == 0"), "the broker is told down")
    assert not own_lab.query("lab_broker_clients_connected")
    assert not own_lab.query("lab_bridge_online")
    own_lab.start("broker")
    until(lambda: own_lab.query("lab_broker_up == 1 and lab_bridge_online == 1"), "broker and bridge are back")


def test_the_next_run_takes_the_view_of_an_interrupted_one(lab: Lab) -> None:
    run = lab.run("scenario3", MESSAGES=1000, INTERVALS_MS="20")
    until(lambda: sent(lab, "scenario3") > 20, "the run is seen")
    run.send_signal(signal.SIGTERM)
    assert run.wait(20) == 1
    until(lambda: not lab.query("lab_run_active == 1"), "no run is active")
    lab.run_to_its_end("scenario3")
    until(lambda: sent(lab, "scenario3") == 80, "the next run is seen")
