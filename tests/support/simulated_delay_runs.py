"""Runs of qos-delay made of known numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from looplab.experiments.qos_delay import USUAL
from support.spec_runs import make_runs

SYMMETRICAL_MS = (2, 5, 10, 20, 40, 60)
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


def as_aggregated(pb: float, bs: float, _qos: int) -> float:
    return max(1.0, 2 * (pb + bs) / INTERVAL_MS)


def write_delay_run(
    results: Path,
    options: str = "",
    *,
    places: str = "--pairs 0-20,2-18,10-10,18-2,20-0",
    delays: tuple[int, ...] = SYMMETRICAL_MS,
    start: str = "20260201T000000Z",
    ratio: Figure = as_published,
    packets: Figure = as_aggregated,
    networks: Mapping[str, float] = MappingProxyType({USUAL: 1.0}),
) -> Path:
    """`ratio` is each cell's mean latency over its delay, times the factor of its network."""

    def truth(cell: Any) -> dict[str, float]:
        key = cell.delay_pb_ms, cell.delay_bs_ms, cell.qos
        carried, factor = packets(*key), 1000 * ratio(*key) * networks[cell.network]
        return {
            "interval_ms": INTERVAL_MS, "made_ms": cell.wanted_ms, "L": factor * cell.wanted_ms,
            "packets_per_segment": carried, "largest_segment_bytes": 25 * carried,
        }  # fmt: skip

    words = f"--delays {','.join(map(str, delays))} --networks {','.join(networks)} {places} {options}"
    (folder,) = make_runs(
        results, f"./lab run qos-delay --messages 20 --repetitions 5 {words}", truth=truth, start=start
    )
    return folder
