"""Runs of balance made of the plant itself: it stands at 20 ms and falls at 100 ms."""

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.balance import NAME, BalanceCell
from looplab.experiments.balance.document import control_figures
from looplab.experiments.balance.plant import GAINS, LEVEL_ZERO, State, law
from looplab.experiments.loop import printed
from looplab.run.samples import ABSENT
from support.plant_model import Plant
from support.run_files import MS, Simulated, sent_ns, simulate

RUN_ID = "20260704T000000Z-balance"
ROBOT_NS, TOTAL_NS = 5 * MS, 6 * MS
MESSAGES = 150
EMPTY = dict.fromkeys(("wire_robot_ns", "wait_ns", *printed.COLUMNS), ABSENT)


@cache
def states(interval_ms: float, messages: int) -> list[tuple[int, int, int]]:
    """Tilt, level and the row of the reading used of each message, where all answers come before the next message."""
    plant, state = Plant(), State()
    found: list[tuple[int, int, int]] = []
    for row in range(messages):
        level = law(GAINS, state) if row else LEVEL_ZERO
        if row:
            plant.command(level)
        state = plant.state
        found.append((round(state.tilt_rad * 1000) * 1000, level, row - 1))
        plant.advance(round(interval_ms))
    return found


def rows_of(interval_ms: float, messages: int) -> dict[str, Any]:
    """The columns of a cell whose answers all come before the next message."""
    tilt, level, used = (np.array(column) for column in zip(*states(interval_ms, messages), strict=True))
    return {"robot_ns": ROBOT_NS, **EMPTY, "tilt_urad": tilt, "level": level, "used": used, "measured_ns": ABSENT}


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
        columns = rows_of(interval_ms, MESSAGES)
        left_ns, read = sent_ns(at, MESSAGES, interval_ms), columns["used"] >= 0
        measured_ns = left_ns - round(interval_ms * MS) + (TOTAL_NS - ROBOT_NS) // 2
        columns["measured_ns"] = np.where(read, measured_ns, ABSENT)
        columns["used"] = np.where(read, columns["used"] + at * MESSAGES, ABSENT)
        columns["tilt_urad"][-1] = ABSENT
        more = {"duplicates": 0, "out_of_order": 0, "disconnects": 0}
        cell = BalanceCell.keyed(interval_ms, quality)
        simulated.append(Simulated(cell, np.full(MESSAGES, TOTAL_NS), interval_ms, 1, columns, more))
    parameters = {"scenario": scenario, "fidelity": "thesis", "intervals_ms": list(intervals_ms), "qos": list(qos),
                  "command": "B", "gains": [], "load": "none"}  # fmt: skip
    return simulate(
        results / f"{start}-{scenario}", NAME, simulated, parameters=parameters, fidelity="thesis", treatments=[],
        figures=lambda _p, store, rows, cell: control_figures(store, [rows], round(cell.interval_ms * MS)),
    )  # fmt: skip
