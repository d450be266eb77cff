"""One lab for the whole session: a run of each experiment, four of the loop, and one that is looked at meanwhile."""

from collections.abc import Iterator

import pytest
from support.every_experiment import begin
from support.observed_lab import SCENARIOS, Lab, observed
from support.waiting import until

from looplab.experiments.registry import EXPERIMENTS


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Broker, bridge, exporter and Prometheus, running."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="session")
def measured(lab: Lab) -> Lab:
    """The lab after a run of every experiment was seen while it was measured, and a run of each of SCENARIOS."""
    for name in EXPERIMENTS:
        begin(lab.live, name)
        seen = f'count_over_time(lab_latency_seconds_count{{experiment="{name}",metric!="send lateness"}}[10m]) > 1'
        until(lambda seen=seen: lab.query(seen), f"{name} is in Prometheus")
    for scenario in SCENARIOS:
        lab.run_to_its_end(scenario)
        until(lambda scenario=scenario: lab.query(whole(scenario)), "the run, whole")
    return lab


def whole(scenario: str) -> str:
    """Return a query that has a value once Prometheus has a whole run of `scenario`, of 40 messages a cell."""
    sent = f'last_over_time(lab_messages_total{{scenario="{scenario}",outcome="answered",cell="10 ms, QoS 0"}}[10m])'
    return f"{sent} == 40 and on (run_id) last_over_time(lab_run_valid[10m]) >= 0"
