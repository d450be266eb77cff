"""The parameters of qos-delay: the published ones by default."""

import pytest

from looplab.errors import UsageError
from looplab.experiments.qos_delay.parameters import QosDelayParameters

SYMMETRICAL = [(d, d) for d in (2, 5, 10, 15, 20, 25, 30, 40, 50, 60)]
OTHERS = [(0, 20), (2, 18), (18, 2), (20, 0)]


def test_by_default_the_published_sweep() -> None:
    p = QosDelayParameters.read({})
    assert list(p.pairs_ms) == SYMMETRICAL + OTHERS
    assert (p.messages * p.repetitions, p.interval_ms, p.payload_bytes) == (10_000, 10, 20)
    assert (p.qos, p.networks) == ((0, 1, 2), ("normal",))
    assert not p.tcp_nodelay
    assert len(p.cells) == 42
    assert p.rows(41) == range(410_000, 420_000)


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ({"DELAYS_MS": "2,20"}, [(2, 2), (20, 20)]),
        ({"PAIRS_MS": "0-20 2-18"}, [(0, 20), (2, 18)]),
        ({"DELAYS_MS": "10", "PAIRS_MS": "10-10,0-20"}, [(10, 10), (0, 20)]),
        ({"DELAYS_MS": "0.5", "PAIRS_MS": " "}, [(0.5, 0.5)]),
    ],
)
def test_what_is_set_alone_is_run(given: dict[str, str], pairs: list[tuple[float, float]]) -> None:
    assert list(QosDelayParameters.read(given).pairs_ms) == pairs


def test_each_network_has_cells_of_its_own() -> None:
    p = QosDelayParameters.read({"NETWORKS": "normal,pareto", "DELAYS_MS": "20", "QOS": "1"})
    assert [str(cell) for cell in p.published_cells] == ["20 + 20 ms, QoS 1", "20 + 20 ms, QoS 1, pareto"]
    with pytest.raises(UsageError, match="NETWORKS"):
        QosDelayParameters.read({"NETWORKS": "loss-1"})
