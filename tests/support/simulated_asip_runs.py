"""Runs of asip and asip-throughput made of known numbers, in the very files that the experiment writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.asip import NAME, THROUGHPUT, LatencyCell, ThroughputCell
from looplab.experiments.asip.document import COLUMNS, EDGES_HEADER
from looplab.run.accounting import summarise
from looplab.run.document import samples_header
from looplab.run.samples import SampleStore
from support.run_files import answer_at_once, begin, finish, treatment

# As the board's own counter sees them: 9 bytes in and 10 out, 170 us each; a wave's two reports are 19 bytes.
WIRE_US, WIRE_HZ = 3230.0, 309.6
BYTES = {"to_board": 9, "to_client": 10}
CELLS = tuple((la, tr, "one") for la in ("python", "java") for tr in ("serial", "tcp", "mqtt"))
CYCLES_PER_US = 16
# Columns of a step beside those that every experiment has.
STEPS = ("frequency_hz", "seconds", "edges_in", "edges_out")

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
    folder = results / f"{start}-{NAME}"
    lines, edges, held = [samples_header(LatencyCell, ["edge_latency_us"])], [EDGES_HEADER], []
    for key in cells:
        spread = 1 + 0.01 * rng.standard_normal(tests)
        latency_ns = np.round(mean_us(*key) * 1000 * spread / spread.mean()).astype(int)
        word = ",".join(key)
        for k, latency in enumerate(latency_ns.tolist()):
            due = 10**12 + k * 40_000_000
            answer = f"{due + 20_000 + latency},{latency / 1000:.3f}" if k < tests - lost else ","
            outcome = "answered" if k < tests - lost else "lost"
            lines.append(f"{word},0,{k},{due},{due + 20_000},{answer},{latency / 1000 - 60:.3f},{outcome}")
            edges += _edges(word, -1, 1_000_000 + k * 640_000, [round(CYCLES_PER_US * (latency / 1000 - 60))])
        known = latency_ns[: tests - lost].tolist()
        held.append({
            **_cell(key), "interval_ms": 40, "tests": tests, "sent": tests, "answered": tests - lost, "lost": lost,
            "latency_us": summarise(known), "edge_tests": tests, "edge_answered": tests, "edge_lost": 0,
            "edge_latency_us": summarise((latency_ns - 60_000).tolist()),
            "wire_us": wire_us, "wire_bytes": BYTES, "send_lateness_us": summarise([20_000] * tests),
            "warmup": {"tests": 200, "first_us": 5210.0, "last_us": 3600.0},
        })  # fmt: skip
    return _write(folder, fidelity, lines, edges, held, {"messages": tests, **(changes or {})})


def write_throughput_run(
    results: Path,
    *,
    start: str = "20260302T000000Z",
    fidelity: str = "thesis",
    tracked_hz: Figure = as_published,
    cells: tuple[tuple[str, str, str], ...] = CELLS,
    changes: dict[str, Any] | None = None,
) -> Path:
    """A bisection that ends within 1 % of each cell's `tracked_hz`; above it, the surplus edges are missing."""
    folder = results / f"{start}-{THROUGHPUT}"
    lines, edges, held = [samples_header(ThroughputCell, STEPS)], [EDGES_HEADER], []
    for key in cells:
        limit, word, steps = tracked_hz(*key), ",".join(key), []
        for number, hz in enumerate(_bisection(limit)):
            wanted = 2 * round(hz)
            out = wanted if hz <= limit else round(wanted * limit / hz)
            tracked = out == wanted
            steps.append({
                "frequency_hz": hz, "seconds": 1.0, "edges_in": wanted, "edges_out": out, "tracked": tracked,
                "edge_latency_us": summarise([3_000_000] * out),
            })  # fmt: skip
            outcome = "answered" if tracked else "lost"
            lines.append(f"{word},0,{number},{number},{number},,{hz:.6f},1,{wanted},{out},{outcome}")
            half = round(16_000_000 / hz / 2)
            for k in range(wanted):
                at, level = 1_000_000 + k * half, (k + 1) % 2
                edges.append(f"{word},{number},2,{level},{at}")
                # Those in the middle are missing.
                if abs(k - wanted / 2) >= (wanted - out) / 2:
                    edges.append(f"{word},{number},13,{level},{at + 48_000}")
        good = [s["frequency_hz"] for s in steps if s["tracked"]]
        bad = [s["frequency_hz"] for s in steps if not s["tracked"]]
        held.append({
            **_cell(key), "tests": len(steps), "sent": len(steps), "answered": len(good), "lost": len(bad),
            "tracked_hz": max(good, default=None), "untracked_hz": min(bad, default=None), "wire_hz": WIRE_HZ,
            "steps": steps,
        })  # fmt: skip
    most = max(cell["tests"] for cell in held)
    return _write(folder, fidelity, lines, edges, held, {"messages": most, **(changes or {})})


def _bisection(limit: float) -> list[float]:
    low, high, tried = 0.0, 400.0, []
    while high - low > 0.01 * limit:
        tried.append((low + high) / 2)
        low, high = (tried[-1], high) if tried[-1] <= limit else (low, tried[-1])
    return tried


def _edges(word: str, step: int, cycle: int, delays: list[int]) -> list[str]:
    """Pin 2 rises and pin 13 after it; both fall 160000 cycles later."""
    return [
        f"{word},{step},{pin},{level},{cycle + fall + behind}"
        for delay in delays
        for level, fall in ((1, 0), (0, 160_000))
        for pin, behind in ((2, 0), (13, delay))
    ]


def _cell(key: tuple[str, str, str]) -> dict[str, Any]:
    language, transport, placement = key
    runtime = "Python 3.13.5" if language == "python" else "OpenJDK 21.0.9, JIT"
    return {
        "language": language, "transport": transport, "placement": placement, "board": "mega",
        "qos": 0, "runtime": runtime, "board_lag_us": {"max": 120.0, "mean": 3.0}, "late": 0, "robot_errors": 0,
        "factors": {
            "tcp_nodelay": True, "adapter": "none", "jit": True, "cpus": 0,
        },
        "valid": True, "invalid_because": [],
    }  # fmt: skip


def _write(
    folder: Path,
    fidelity: str,
    lines: list[str],
    edges: list[str],
    cells: list[dict[str, Any]],
    parameters: dict[str, Any],
) -> Path:
    treatments = [treatment("board clock", "16 MHz")]
    files = {"samples.csv": lines, "edges.csv": edges}
    return finish(folder, NAME, cells, parameters, files, fidelity=fidelity, treatments=treatments)


def begin_run(live: Path, run_id: str) -> None:
    """A latency run that is being measured: its first client is done, its second half way, each test 4 ms."""
    tests = 20
    store = SampleStore(len(CELLS) * tests, live / "samples.bin", COLUMNS)
    answer_at_once(store, [4_000_000] * (tests + tests // 2))
    parameters = {
        "scenario": NAME, "languages": ["python", "java"], "placements": ["one"], "qos": 0,
        "transports": ["serial", "tcp", "mqtt"], "messages": tests, "deadline_ms": 1000,
    }  # fmt: skip
    begin(live, NAME, run_id, parameters, [LatencyCell.keyed(*key) for key in CELLS])
