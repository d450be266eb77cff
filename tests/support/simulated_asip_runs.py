"""Runs of asip and asip-throughput made of known numbers, in the very files that the experiment writes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT, AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.document import copies, planned
from looplab.experiments.asip.waves import search_result
from looplab.run.samples import ABSENT, ANSWERED, WAITING
from support.run_files import Simulated, simulate

# As the board's own counter sees them: 9 bytes in and 10 out, 170 us each; a wave's two reports are 19 bytes.
WIRE_US, WIRE_HZ = 3230.0, 309.6
CELLS = tuple((la, tr, "one") for la in ("python", "java") for tr in ("serial", "tcp", "mqtt"))
INTERVAL_MS = 40
# What is asked of the parameters of either kind of run.
SETTINGS = {"client_cpus": 0, "seconds": 1}

# (language, transport, placement) -> a figure
Figure = Callable[[str, str, str], float]


def near_the_wire(language: str, transport: str, _placement: str) -> float:
    """Mean latency in us: the wire, and what transport and language add."""
    return WIRE_US + {"serial": 150, "tcp": 400, "mqtt": 600}[transport] + (100 if language == "python" else 0)


def as_published(language: str, transport: str, _placement: str) -> float:
    """Hz tracked, as on the MacBook Pro."""
    return {"java": (200, 80, 80), "python": (90, 80, 50)}[language][("serial", "tcp", "mqtt").index(transport)]


def write_latency_run(
    results: Path,
    *,
    start: str = "20260301T000000Z",
    mean_us: Figure = near_the_wire,
    cells: Sequence[tuple[str, str, str]] = CELLS,
    tests: int = 100,
    lost: int = 0,
) -> Path:
    """A folder as the experiment leaves it; the last `lost` tests of each cell have no answer."""
    rng = np.random.default_rng(int(start[6:8]))
    simulated = []
    for key in cells:
        spread = 1 + 0.01 * rng.standard_normal(tests)
        latency_ns = np.round(mean_us(*key) * 1000 * spread / spread.mean()).astype(int)
        # The board's pin follows 60 us before its client hears of it.
        delays_ns = latency_ns - 60_000
        more = {"wire_us": WIRE_US, **copies(delays_ns.tolist())}
        cell = LatencyCell.keyed(*key)
        simulated.append(Simulated(cell, latency_ns, INTERVAL_MS, lost, {"edge_ns": delays_ns}, more))
    return _simulate(results / f"{start}-{NAME}", simulated)


def write_throughput_run(
    results: Path,
    *,
    start: str = "20260302T000000Z",
    tracked_hz: Figure = as_published,
    cells: Sequence[tuple[str, str, str]] = CELLS,
    edge_cpu_us: float = 50.0,
) -> Path:
    """A search of two steps: at each cell's `tracked_hz`, and 1 % above it, where an edge is missing."""
    simulated = []
    for key in cells:
        asked_hz = tracked_hz(*key) * np.array([1, 1.01])
        edges_in = 2 * np.round(asked_hz).astype(int)
        edges_out = edges_in - [0, 1]
        found = search_result(list(zip(asked_hz.tolist(), (edges_out == edges_in).tolist(), strict=True)))
        columns = {
            "received_ns": ABSENT, "state": [ANSWERED, WAITING], "frequency_uhz": np.round(asked_hz * 1e6).astype(int),
            "edges_in": edges_in, "edges_out": edges_out,
        }  # fmt: skip
        more = {"wire_hz": WIRE_HZ, "edge_cpu_us": edge_cpu_us, **found}
        simulated.append(Simulated(ThroughputCell.keyed(*key), np.zeros(2), INTERVAL_MS, 0, columns, more))
    return _simulate(results / f"{start}-{THROUGHPUT}", simulated)


def _simulate(folder: Path, simulated: list[Simulated]) -> Path:
    throughput = isinstance(simulated[0].cell, ThroughputCell)

    def figures(p: Any, _store: object, _rows: range, cell: AsipCell) -> dict[str, Any]:
        runtime = "Python 3.13.5" if cell.language == "python" else "OpenJDK 21.0.9, JIT"
        return {**planned(p, cell).more, "runtime": runtime, "board_lag_us": 120.0}

    return simulate(folder, NAME, simulated, settings={"throughput": throughput, **SETTINGS}, figures=figures)
