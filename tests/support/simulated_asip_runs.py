"""Runs of asip and asip-throughput made of known numbers, in the very files that the experiment writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT, AsipCell, LatencyCell, ThroughputCell
from looplab.experiments.asip.board import CYCLE_NS
from looplab.experiments.asip.document import COLUMNS, AsipMeasurement, copies, files, planned
from looplab.experiments.asip.oscilloscope import BoardCounts
from looplab.experiments.asip.search import search_result
from looplab.run.accounting import summarise
from looplab.run.cells import entry
from looplab.run.samples import ANSWERED, WAITING, SampleStore
from support.run_files import Simulated, asked, fill, finish, sample, treatment

# As the board's own counter sees them: 9 bytes in and 10 out, 170 us each; a wave's two reports are 19 bytes.
WIRE_US, WIRE_HZ = 3230.0, 309.6
BYTES = {"to_board": 9, "to_client": 10}
CELLS = tuple((la, tr, "one") for la in ("python", "java") for tr in ("serial", "tcp", "mqtt"))
CYCLES_PER_US = 16
INTERVAL_MS = 40
# What is asked of the parameters of either kind of run.
SETTINGS = {
    "board": "mega", "qos": 0, "tcp_nodelay": True, "adapter": "none", "reports": False, "jit": True, "client_cpus": 0,
    "seconds": 1, "interval_ms": INTERVAL_MS,
}  # fmt: skip

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
    fidelity: str = "thesis",
    mean_us: Figure = near_the_wire,
    cells: tuple[tuple[str, str, str], ...] = CELLS,
    tests: int = 100,
    lost: int = 0,
    wire_us: float = WIRE_US,
    changes: dict[str, Any] | None = None,
) -> Path:
    """A folder as the experiment leaves it; the last `lost` tests of each cell have no answer."""
    rng = np.random.default_rng(int(start[6:8]))
    warmup = {"tests": 200, "first_us": 5210.0, "last_us": 3600.0}
    simulated, measured = [], []
    for key in cells:
        spread = 1 + 0.01 * rng.standard_normal(tests)
        latency_ns = np.round(mean_us(*key) * 1000 * spread / spread.mean()).astype(int)
        # The board's pin follows 60 us before its client hears of it.
        waves = 1_000_000 + 640_000 * np.arange(tests)
        copied = waves + np.round(CYCLES_PER_US * (latency_ns / 1000 - 60)).astype(int)
        delays_ns = np.round((copied - waves) * CYCLE_NS).astype(int)
        columns = {**dict.fromkeys(COLUMNS, -1), "edge_ns": delays_ns}
        simulated.append(Simulated(LatencyCell.keyed(*key), latency_ns, INTERVAL_MS, lost, columns))
        more = {"wire_us": wire_us, "wire_bytes": BYTES, "warmup": warmup, **copies(delays_ns.tolist())}
        measured.append(_measured(simulated[-1].cell, more))
    return _write(results / f"{start}-{NAME}", fidelity, sample(simulated), measured, tests, changes)


def write_throughput_run(
    results: Path,
    *,
    start: str = "20260302T000000Z",
    fidelity: str = "thesis",
    tracked_hz: Figure = as_published,
    cells: tuple[tuple[str, str, str], ...] = CELLS,
    changes: dict[str, Any] | None = None,
    edge_cpu_us: float = 50.0,
) -> Path:
    """A bisection that ends within 1 % of each cell's `tracked_hz`; above it, the surplus edges are missing."""
    tried = {key: _bisection(tracked_hz(*key)) for key in cells}
    most, measured = max(map(len, tried.values())), []
    store = SampleStore(most * len(cells), more=COLUMNS)
    for at, (key, frequencies) in enumerate(tried.items()):
        limit = tracked_hz(*key)
        steps: list[dict[str, Any]] = []
        for number, hz in enumerate(frequencies):
            wanted = 2 * round(hz)
            out = wanted if hz <= limit else round(wanted * limit / hz)
            steps.append({
                "frequency_hz": hz, "seconds": 1.0, "edges_in": wanted, "edges_out": out, "tracked": out == wanted,
                "edge_latency_us": summarise([3_000_000] * out),
            })  # fmt: skip
            row, state = at * most + number, ANSWERED if out == wanted else WAITING
            fill(
                store, range(row, row + 1), due_ns=row, sent_ns=row, state=state, frequency_uhz=round(hz * 1e6),
                edges_in=wanted, edges_out=out,
            )  # fmt: skip
        more = {"wire_hz": WIRE_HZ, "steps": steps, "edge_cpu_us": edge_cpu_us, **search_result(steps)}
        measured.append(_measured(ThroughputCell.keyed(*key), more))
    return _write(results / f"{start}-{THROUGHPUT}", fidelity, store, measured, most, changes)


def _bisection(limit: float) -> list[float]:
    low, high, tried = 0.0, 400.0, []
    while high - low > 0.01 * limit:
        tried.append((low + high) / 2)
        low, high = (tried[-1], high) if tried[-1] <= limit else (low, tried[-1])
    return tried


def _measured(cell: AsipCell, more: dict[str, Any]) -> AsipMeasurement:
    runtime = "Python 3.13.5" if cell.language == "python" else "OpenJDK 21.0.9, JIT"
    board = BoardCounts({"max": 120.0, "mean": 3.0}, 0.0, "ATmega2560")
    return AsipMeasurement(cell, {"runtime": runtime, "board_lag_us": board.lag_us, **more}, board=board)


def _write(
    folder: Path,
    fidelity: str,
    store: SampleStore,
    measured: list[AsipMeasurement],
    tests: int,
    changes: dict[str, Any] | None,
) -> Path:
    throughput = isinstance(measured[0].cell, ThroughputCell)
    p = asked([one.cell for one in measured], tests, throughput=throughput, **SETTINGS)
    for one in measured:
        one.more = {**planned(p, one.cell).more, **one.more}
    cells = [entry(one, store, p.rows(at)) for at, one in enumerate(measured)]
    rows = range(store.count)
    return finish(
        folder, NAME, cells, {"messages": tests, **(changes or {})},
        {file.name: [file.header, *file.lines(store, rows)] for file in files(p)},
        fidelity=fidelity, treatments=[treatment("board clock", "16 MHz")],
    )  # fmt: skip
