"""Runs of qos-delay made of known numbers, in the very files that the experiment writes."""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np

from looplab.experiments.qos_delay import USUAL, DelayCell
from support.run_files import Simulated, simulate

SYMMETRICAL = tuple((d, d) for d in (2, 5, 10, 20, 40, 60))
PLACES = ((0, 20), (2, 18), (10, 10), (18, 2), (20, 0))
INTERVAL_MS = 10.0

# (delay_pb_ms, delay_bs_ms, qos) -> a mean
Figure = Callable[[float, float, int], float]


def as_published(pb: float, bs: float, qos: int) -> float:
    """Latency over delay: 1 where the round trip is shorter than the period, else 2; at QoS 2 from 4.5 to 7.5."""
    if qos == 2:
        return 4.5 + 3.0 * min(1.0, (pb + bs) / 120)
    return 1.0 if 2 * (pb + bs) < INTERVAL_MS else 2.0


def one_way(_pb: float, _bs: float, qos: int) -> float:
    """As it would be without Nagle: one way, and two round trips more at QoS 2."""
    return 3.0 if qos == 2 else 1.0


def write_delay_run(
    results: Path,
    *,
    fidelity: str = "thesis",
    start: str = "20260201T000000Z",
    ratio: Figure = as_published,
    packets: Figure | None = None,
    pairs: tuple[tuple[float, float], ...] = SYMMETRICAL + PLACES,
    messages: int = 100,
    repetitions: int = 5,
    networks: Mapping[str, float] = MappingProxyType({USUAL: 1.0}),
) -> Path:
    """A folder as the experiment leaves it; `ratio` is each cell's mean latency over its delay,
    times the factor of its network."""
    rng = np.random.default_rng(7)
    simulated = []
    for network, (pb, bs), qos in product(networks, dict.fromkeys(pairs), (0, 1, 2)):
        made_ms = float(pb + bs)
        mean_ns = 1e6 * made_ms * ratio(pb, bs, qos) * networks[network]
        total_ns = np.round(mean_ns * (1 + 0.1 * rng.standard_normal(messages))).astype(int)
        carried = packets(pb, bs, qos) if packets else max(1.0, 2 * made_ms / INTERVAL_MS)
        more = {
            "interval_ms": INTERVAL_MS,
            "end_to_end_ms": {"pb": float(pb), "bs": float(bs), "total": made_ms},
            "segments": {
                "publisher": {"mqtt_packets_per_segment": {"mean": carried}, "size_bytes": {"max": 25 * carried}}
            },
        }
        simulated.append(Simulated(DelayCell.keyed(pb, bs, qos, network), total_ns, INTERVAL_MS, more=more))
    folder = results / f"{start}-qos-delay"
    return simulate(folder, "qos-delay", simulated, repetitions=repetitions, fidelity=fidelity)
