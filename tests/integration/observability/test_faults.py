"""What breaks while a run goes on, and that neither the run nor the view minds for long."""

import json
import time
from collections.abc import Iterator

import pytest
from support.observed_lab import PARTS, Lab, observed
from support.run_files import Writer, parameters, publish_state
from support.waiting import until

LOST_OF_40 = 16


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One whose parts get killed; Prometheus keeps what it knew before that for minutes."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture
def lab(started: Lab) -> Lab:
    """The same with all its parts, whatever a test before has killed."""
    started.start(*PARTS)
    return started


def sent(lab: Lab, scenario: str) -> int:
    found = lab.query(f'sum(lab_messages_sent_total{{scenario="{scenario}"}})')
    return int(float(found[0]["value"][1])) if found else 0


def test_exporter_and_prometheus_killed_during_a_run(lab: Lab) -> None:
    messages = 1000
    run = lab.run("scenario5", MESSAGES=messages, INTERVALS_MS="10")

    def goes_on(after: int, by: int) -> bool:
        # A run that ended meanwhile has gone as far as it could.
        return sent(lab, "scenario5") >= min(after + by, messages)

    until(lambda: goes_on(0, 50), "the run is seen")
    lab.kill("exporter")
    time.sleep(2)
    lab.start("exporter")
    before = sent(lab, "scenario5")
    until(lambda: goes_on(before, 50), "the view goes on after the exporter's death")
    lab.kill("prometheus")
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


def test_a_curve_ends_where_the_losses_begin(lab: Lab) -> None:
    writer = Writer(lab.live, 40)
    for row in range(40):
        writer.send(row, ago_ms=10_000)
        if row >= LOST_OF_40:
            writer.answer(row)
    asked = parameters(SCENARIO="scenario6", INTERVALS_MS="20", MESSAGES=40, REPETITIONS=1)
    publish_state(lab.live, "running", "20990101T000000Z-scenario6", parameters=asked)

    def heights() -> list[float]:
        curves = lab.panel("compare-scenarios", "CDF of $metric: the scenarios chosen above")
        return [max(values) for name, values in curves.items() if name.startswith("scenario6")]

    until(lambda: heights() == [1 - LOST_OF_40 / 40], "the losses")
