"""Runs of the loop made of known numbers, in the very files that the lab writes."""

from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.loop import LoopCell
from looplab.run.samples import ABSENT
from support.run_files import Simulated, simulate, treatment

# What each scenario gives its priority to.
PRIORITY = {"broker": ("scenario4", "scenario5", "scenario6"), "controller": ("scenario5", "scenario8")}


def simulated_cell(
    rng: np.random.Generator, repetitions: int, messages: int, median_us: float, robot_us: float, spread: float = 0.3
) -> tuple[np.ndarray, np.ndarray]:
    """(O, R) in microseconds, one row a repetition; repetitions differ, and messages within one are correlated."""
    own = rng.normal(0, 0.05, (repetitions, 1))
    noise = rng.normal(0, spread, (repetitions, messages))
    noise[:, 1:] = 0.5 * noise[:, :-1] + 0.87 * noise[:, 1:]
    return median_us * np.exp(own + noise), rng.normal(robot_us, 0.02 * robot_us, (repetitions, messages))


def write_run(
    results: Path,
    scenario: str,
    *,
    fidelity: str = "thesis",
    start: str = "20260101T000000Z",
    cells: dict[tuple[float, int], tuple[np.ndarray, np.ndarray]],
    lost: dict[tuple[float, int], int] | None = None,
    changes: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
) -> Path:
    """A folder as the controller leaves it; `lost` messages of a cell (the last ones) have no answer."""
    run_id = f"{start}-{scenario}"
    simulated = [_cell(*key, *times, (lost or {}).get(key, 0)) for key, times in cells.items()]
    repetitions, _messages = next(iter(cells.values()))[0].shape
    corrected = fidelity == "corrected"
    asked = {
        "scenario": scenario,
        "fidelity": fidelity,
        "intervals_ms": sorted({i for i, _ in cells}, reverse=True),
        "qos": sorted({q for _, q in cells}),
        "command": "E" if scenario in ("scenario0", "scenario3", "scenario6") else "T",
        "load": "none",
        "priority_broker": 90 if scenario in PRIORITY["broker"] else 0,
        "priority_controller": 99 if scenario in PRIORITY["controller"] else 0,
        "tcp_nodelay": corrected,
        "robot_framing": "line" if corrected else "burst",
        "qos_legs": "all" if corrected else "request",
        "connections": "one" if corrected else "two",
        "apply_priority": corrected,
        **(parameters or {}),
    }
    treatments = [
        treatment(f"{role} scheduling policy", "SCHED_FIFO 90" if corrected and scenario in those else "SCHED_OTHER")
        for role, those in PRIORITY.items()
    ]
    more = {"fidelity": fidelity, "token": f"{abs(hash(run_id)) % 2**32:08x}", "treatments": treatments}
    more = {**more, **(changes or {})}
    return simulate(results / run_id, "loop", simulated, repetitions=repetitions, parameters=asked, **more)


def _cell(interval_ms: float, qos: int, overhead: np.ndarray, robot: np.ndarray, lost: int) -> Simulated:
    # In nanoseconds, as three decimals of a microsecond have it.
    o_ns, r_ns = (np.rint(us.ravel() * 1000).astype(np.int64) for us in (overhead, robot))
    total_ns = o_ns + r_ns
    r_ns[r_ns.size - lost :] = ABSENT
    return Simulated(LoopCell.keyed(interval_ms, qos), total_ns, interval_ms, lost, {"robot_ns": r_ns})


# What the nine scenarios are like, in microseconds: (O median, O spread, R).
LIKE_THE_THESIS = {
    "scenario0": (9900, 0.15, 70), "scenario1": (9000, 0.15, 4290), "scenario2": (12500, 0.35, 4290),
    "scenario3": (12800, 0.35, 70), "scenario4": (10900, 0.25, 4290), "scenario5": (10950, 0.25, 4290),
    "scenario6": (11500, 0.25, 70),
}  # fmt: skip


def nine_scenarios(
    results: Path,
    *,
    repetitions: int = 10,
    messages: int = 100,
    fidelity: str = "thesis",
    seed: int = 1,
    start: str = "20260101T000000Z",
) -> list[Path]:
    """One run of each scenario, which show what the thesis says, claim by claim; each run has a level of its own."""
    rng = np.random.default_rng(seed)
    folders = []
    for scenario, (published, spread, robot) in LIKE_THE_THESIS.items():
        median = published * float(np.exp(rng.normal(0, 0.01)))
        cells = {
            (interval, 0): simulated_cell(rng, repetitions, messages, median, robot, spread)
            for interval in (100.0, 50.0, 20.0, 10.0)
        }
        loses = {(10.0, 0): 37} if robot > 1000 and fidelity == "thesis" else {}
        folders.append(write_run(results, scenario, fidelity=fidelity, start=start, cells=cells, lost=loses))
    seven = {(20.0, 0): simulated_cell(rng, repetitions, messages, 20000, 4290, 0.6)}
    folders.append(write_run(results, "scenario7", fidelity=fidelity, start=start, cells=seven, lost={(20.0, 0): 12}))
    slow = 1.0 if fidelity == "thesis" else 0.1
    eight = {
        (20.0, qos): simulated_cell(rng, repetitions, messages, median * slow, 4290, 0.4)
        for qos, median in ((0, 15000), (1, 11800), (2, 32000))
    }
    folders.append(write_run(results, "scenario8", fidelity=fidelity, start=start, cells=eight, lost={(20.0, 0): 20}))
    return folders
