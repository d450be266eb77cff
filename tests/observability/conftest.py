"""One lab for the whole session: nine runs, then a longer one that is looked at while it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from observed_lab import Lab, observed, until


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Broker, bridge, exporter and Prometheus, running."""
    with observed(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="session")
def measured(lab: Lab) -> Lab:
    """The lab after a run of each scenario."""
    for number in range(9):
        lab.run_to_its_end(f"scenario{number}")
    query = 'count(count by (scenario) (loop_latency_seconds_count{metric="O"}))'
    until(lambda: lab.query(query)[0]["value"][1] == "9", 30, "all nine runs are in Prometheus")
    return lab
