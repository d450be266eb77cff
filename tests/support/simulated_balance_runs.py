"""Runs of balance made of the plant itself: it stands at 20 ms and falls at 100 ms."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from looplab.experiments.balance import NAME, BalanceCell
from looplab.experiments.balance.document import control_figures
from looplab.experiments.balance.plant import GAINS, LEVEL_ZERO, State, law
from looplab.run.samples import ABSENT
from support.plant_model import Plant
from support.run_files import MS, Simulated, sent_ns, simulate

RUN_ID = "20260704T000000Z-balance"
ROBOT_NS, TOTAL_NS = 5 * MS, 6 * MS
MESSAGES = 150


@cache
def states(interval_ms: float) -> tuple[np.ndarray, ...]:
    """Tilt, level and the row of the reading used of each message, where all answers come before the next message."""
    plant, state = Plant(), State()
    found: list[tuple[int, int, int]] = []
    for row in range(MESSAGES):
        level = law(GAINS, state) if row else LEVEL_ZERO
        if row:
            plant.command(level)
        state = plant.state
        found.append((round(state.tilt_rad * 1000) * 1000, level, row - 1))
        plant.advance(round(interval_ms))
    return tuple(map(np.array, zip(*found, strict=True)))


def write_balance_run(
    results: Path,
    scenario: str = NAME,
    *,
    start: str = RUN_ID.partition("-")[0],
    intervals_ms: tuple[float, ...] = (100, 20),
    qos: tuple[int, ...] = (0,),
) -> Path:
    """A folder as the controller leaves it; the last message of each cell is lost."""
    simulated = []
    for at, (interval_ms, quality) in enumerate(product(intervals_ms, qos)):
        tilt, level, used = states(interval_ms)
        measured_ns = sent_ns(at, MESSAGES, interval_ms) - round(interval_ms * MS) + (TOTAL_NS - ROBOT_NS) // 2
        columns = {
            "robot_ns": ROBOT_NS, "level": level, "tilt_urad": np.append(tilt[:-1], ABSENT),
            "used": np.where(used >= 0, used + at * MESSAGES, ABSENT),
            "measured_ns": np.where(used >= 0, measured_ns, ABSENT),
        }  # fmt: skip
        cell = BalanceCell.keyed(interval_ms, quality)
        simulated.append(Simulated(cell, np.full(MESSAGES, TOTAL_NS), interval_ms, 1, columns))
    parameters = {"scenario": scenario, "fidelity": "thesis", "intervals_ms": list(intervals_ms), "qos": list(qos),
                  "command": "B", "gains": [], "load": "none"}  # fmt: skip
    return simulate(
        results / f"{start}-{scenario}", NAME, simulated, parameters=parameters, fidelity="thesis",
        figures=lambda _p, store, rows, cell: control_figures(store, [rows], round(cell.interval_ms * MS)),
    )  # fmt: skip
