"""The distributions of iproute2, whose tables its package installs."""

import statistics

import pytest

from looplab.link.distributions import TABLE_SCALE, table

DRAWS = 40_000


def test_tables_are_iproute2s() -> None:
    """FACTS of the tables themselves: 4096 entries, deviations 1, 0.82 and 0.83 of nominal."""
    spread = {name: statistics.pstdev(table(name)) / TABLE_SCALE for name in ("normal", "pareto", "paretonormal")}
    assert {len(table(name)) for name in spread} == {4096}
    assert spread["normal"] == pytest.approx(1.0, abs=0.001)
    assert spread["pareto"] == pytest.approx(0.82, abs=0.005)
    assert spread["paretonormal"] == pytest.approx(0.834, abs=0.005)
