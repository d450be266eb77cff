"""One lab for the whole session: nine runs, then a longer one that is looked at while it goes on."""

from collections.abc import Iterator

import pytest
from support.observed_lab import Lab, observed
from support.simulated_asip_runs import begin_run, write_latency_run, write_throughput_run
from support.simulated_delay_runs import one_way, write_delay_run
from support.simulated_sweep import RUN_ID, begin_sweep
from support.waiting import until


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Broker, bridge, exporter and Prometheus, running."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="session")
def measured(lab: Lab) -> Lab:
    """The lab after two sweeps of qos-delay, a third and one of asip seen while measured, a run of each scenario."""
    write_delay_run(lab.results)
    write_delay_run(lab.results, fidelity="corrected", start="20260202T000000Z", ratio=one_way)
    begin_sweep(lab.live)
    until(lambda: lab.query("qos_delay_latency_seconds_count"), "the sweep is in Prometheus", 30)
    # Its folder: curves of a run that results/ does not have are not drawn.
    write_delay_run(lab.results, start=RUN_ID.partition("-")[0])
    begin_run(lab.live, "20260402T000000Z-asip")
    until(lambda: lab.query("asip_latency_seconds_count"), "the latency run is in Prometheus", 30)
    write_latency_run(lab.results, start="20260402T000000Z")
    write_throughput_run(lab.results)
    for number in range(9):
        lab.run_to_its_end(f"scenario{number}")
    query = 'count(count by (scenario) (loop_latency_seconds_count{metric="O"}))'
    until(lambda: lab.query(query)[0]["value"][1] == "9", "all nine runs are in Prometheus", 30)
    return lab
