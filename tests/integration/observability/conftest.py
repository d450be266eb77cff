"""One lab for the whole session: nine runs, then a longer one that is looked at while it goes on."""

from collections.abc import Iterator

import pytest
from support.every_experiment import BEGINNINGS, ENDINGS
from support.observed_lab import Lab, observed
from support.simulated_delay_runs import write_delay_run
from support.simulated_twin_runs import experiment_1, write_twin_run
from support.waiting import until

# What Prometheus has of an experiment's run while it is measured.
SEEN = {
    "qos-delay": "qos_delay_latency_seconds_count",
    "twin": "twin_queue_length == 3 and on (cell) twin_cell_current == 1",
    "middleware": "middleware_latency_seconds_count",
    "asip": "asip_latency_seconds_count",
    "balance": "balance_tilt_degrees",
}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Broker, bridge, exporter and Prometheus, running."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


def _see(lab: Lab, name: str) -> None:
    """Measure a run of an experiment until Prometheus has it, then store it: only what results/ has is drawn."""
    BEGINNINGS[name](lab.live)
    until(lambda: lab.query(SEEN[name]), f"{name} is in Prometheus")
    ENDINGS[name](lab.results)


@pytest.fixture(scope="session")
def measured(lab: Lab) -> Lab:
    """The lab after runs of every experiment seen while measured, earlier ones of two, and a run of each scenario."""
    write_delay_run(lab.results)
    write_twin_run(lab.results, experiment_1())
    for name in BEGINNINGS:
        _see(lab, name)
    for number in range(9):
        lab.run_to_its_end(f"scenario{number}")
    query = 'count(count by (scenario) (loop_latency_seconds_count{metric="O"}))'
    until(lambda: lab.query(query)[0]["value"][1] == "9", "all nine runs are in Prometheus")
    return lab
