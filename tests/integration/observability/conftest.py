"""One lab for the whole session: nine runs, then a longer one that is looked at while it goes on."""

from collections.abc import Iterator

import pytest
from support.observed_lab import Lab, observed
from support.simulated_asip_runs import begin_run, write_latency_run, write_throughput_run
from support.simulated_delay_runs import one_way, write_delay_run
from support.simulated_middleware_runs import begin_middleware, cores_cells, write_middleware_run
from support.simulated_sweep import RUN_ID, begin_sweep
from support.simulated_twin_runs import RUNNING_ID, begin_twin, experiment_1, experiment_2, single, write_twin_run
from support.waiting import until


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Broker, bridge, exporter and Prometheus, running."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


def _measure_twins(lab: Lab) -> None:
    """Runs of the three experiments of twin, another one seen while it was measured."""
    spread = {"single": 0.01, "central": 0.01, "distributed": 0.01}
    write_twin_run(lab.results, experiment_1())
    brokers = experiment_2(spread, {(1, "single"): 15.0, (2, "central"): 14.0, (2, "distributed"): 14.0}, iterations=2)
    write_twin_run(lab.results, brokers, scenario="twin-brokers")
    limit = single(0.1, "copy", more={"limit_per_s": 9000.0, "limited_by": "instance"})
    write_twin_run(lab.results, [limit], scenario="twin-limit")
    begin_twin(lab.live)
    until(lambda: lab.query("twin_queue_length == 3 and on (cell) twin_cell_current == 1"), "the twin's queue", 30)
    write_twin_run(lab.results, experiment_1(), start=RUNNING_ID.partition("-")[0])


def _measure_middleware(lab: Lab) -> None:
    """A run on several nodes, one on cores that was seen while it was measured."""
    write_middleware_run(lab.results, "middleware-nodes", repetitions=2)
    cells = cores_cells((30, 60, 120))
    begin_middleware(lab.live, "20260403T000000Z-middleware", cells[-1])
    until(lambda: lab.query("middleware_latency_seconds_count"), "the load is in Prometheus", 30)
    write_middleware_run(lab.results, cells=cells, repetitions=2, start="20260403T000000Z")


@pytest.fixture(scope="session")
def measured(lab: Lab) -> Lab:
    """The lab after two sweeps of qos-delay, runs of every experiment seen while measured, a run of each scenario."""
    write_delay_run(lab.results)
    write_delay_run(lab.results, fidelity="corrected", start="20260202T000000Z", ratio=one_way)
    begin_sweep(lab.live)
    until(lambda: lab.query("qos_delay_latency_seconds_count"), "the sweep is in Prometheus", 30)
    # Its folder: curves of a run that results/ does not have are not drawn.
    write_delay_run(lab.results, start=RUN_ID.partition("-")[0])
    _measure_twins(lab)
    begin_run(lab.live, "20260402T000000Z-asip")
    until(lambda: lab.query("asip_latency_seconds_count"), "the latency run is in Prometheus", 30)
    write_latency_run(lab.results, start="20260402T000000Z")
    write_throughput_run(lab.results)
    _measure_middleware(lab)
    for number in range(9):
        lab.run_to_its_end(f"scenario{number}")
    query = 'count(count by (scenario) (loop_latency_seconds_count{metric="O"}))'
    until(lambda: lab.query(query)[0]["value"][1] == "9", "all nine runs are in Prometheus", 30)
    return lab
