"""Runs of asip and asip-throughput made of known numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.spec_runs import make_runs

# As the board's own counter sees them: 9 bytes in and 10 out, 170 us each; a wave's two reports are 19 bytes.
WIRE_US, WIRE_HZ = 3230.0, 309.6

# (language, transport, placement) -> a figure
Figure = Callable[[str, str, str], float]


def near_the_wire(language: str, transport: str, _placement: str) -> float:
    """Mean latency in us: the wire, and what transport and language add."""
    return WIRE_US + {"serial": 150, "tcp": 400, "mqtt": 600}[transport] + (100 if language == "python" else 0)


def as_published(language: str, transport: str, _placement: str) -> float:
    """Hz tracked, as on the MacBook Pro."""
    return {"java": (200, 80, 80), "python": (90, 80, 50)}[language][("serial", "tcp", "mqtt").index(transport)]


def write_latency_run(
    results: Path, *, start: str = "20260301T000000Z", mean_us: Figure = near_the_wire, lost: int = 0
) -> Path:
    """The last `lost` tests of each cell have no answer."""

    def truth(cell: Any) -> dict[str, float]:
        return {"latency": mean_us(*cell.key), "wire_us": WIRE_US, "lost": lost}

    return make_runs(results, "./lab run asip --messages 100", truth=truth, start=start)[0]


def write_throughput_run(
    results: Path, *, start: str = "20260302T000000Z", tracked_hz: Figure = as_published, edge_cpu_us: float = 50.0
) -> Path:
    def truth(cell: Any) -> dict[str, Any]:
        tracked = {"tracked_hz": tracked_hz(*cell.key), "wire_hz": WIRE_HZ}
        return {**tracked, "edge_cpu_us": edge_cpu_us, "factors": {"cpus": 0}}

    return make_runs(results, "./lab run asip-throughput", truth=truth, start=start)[0]
