"""The distributions of iproute2, whose tables its package installs."""

import random
import statistics

import pytest

from looplab.link.distributions import TABLE_SCALE, sampler, table, theory
from looplab.link.settings import LinkSettings

DRAWS = 40_000


@pytest.mark.parametrize("distribution", ["uniform", "normal", "pareto", "paretonormal"])
def test_draws_follow_their_distribution(distribution: str) -> None:
    """Four standard errors of the mean; the spread within 3 %, ten times what chance makes of 40 000 draws."""
    wanted = LinkSettings(peer="broker", direction="egress", delay_ms=20.0, jitter_ms=5.0, distribution=distribution)
    draw = sampler(wanted, random.Random(1))
    delays = [draw() / 1e6 for _ in range(DRAWS)]
    mean, deviation = theory(wanted)
    assert statistics.fmean(delays) == pytest.approx(mean, abs=4 * deviation / DRAWS**0.5)
    assert statistics.stdev(delays) == pytest.approx(deviation, rel=0.03)


def test_tables_are_iproute2s() -> None:
    """FACTS of the tables themselves: 4096 entries, deviations 1, 0.82 and 0.83 of nominal."""
    spread = {name: statistics.pstdev(table(name)) / TABLE_SCALE for name in ("normal", "pareto", "paretonormal")}
    assert {len(table(name)) for name in spread} == {4096}
    assert spread["normal"] == pytest.approx(1.0, abs=0.001)
    assert spread["pareto"] == pytest.approx(0.82, abs=0.005)
    assert spread["paretonormal"] == pytest.approx(0.834, abs=0.005)
