"""Runs of balance made of the plant itself: it stands at 20 ms and falls at 100 ms."""

from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.balance import NAME, BalanceCell
from looplab.experiments.balance.document import SAMPLES, control_figures
from looplab.experiments.balance.laws import Law
from looplab.experiments.balance.plant import LEVEL_ZERO, Plant, State
from looplab.experiments.loop import printed
from looplab.run.cells import CellResult, entry
from looplab.run.document import sample_lines, samples_header
from looplab.run.samples import ABSENT
from support.run_files import MS, Simulated, asked, fill, finish, sample

RUN_ID = "20260704T000000Z-balance"
ROBOT_NS, TOTAL_NS = 5 * MS, 6 * MS
EMPTY = dict.fromkeys(("wire_robot_ns", "wait_ns", *printed.COLUMNS), ABSENT)


def rows_of(interval_ms: float, messages: int) -> dict[str, Any]:
    """The columns of a cell whose answers all come before the next message."""
    plant, law, state = Plant(), Law("lqr", interval_ms / 1000), State()
    found: list[tuple[int, int, int]] = []
    for row in range(messages):
        level = law.level(state) if row else LEVEL_ZERO
        if row:
            plant.command(level)
        state = plant.state
        found.append((round(state.tilt_rad * 1000) * 1000, level, row - 1))
        plant.advance(round(interval_ms))
    tilt, level, used = (np.array(column) for column in zip(*found, strict=True))
    return {"robot_ns": ROBOT_NS, **EMPTY, "tilt_urad": tilt, "level": level, "used": used, "measured_ns": ABSENT}


def write_balance_run(
    results: Path,
    scenario: str = NAME,
    *,
    start: str = RUN_ID.partition("-")[0],
    fidelity: str = "thesis",
    intervals_ms: tuple[float, ...] = (100, 20),
    messages: int = 150,
) -> Path:
    """A folder as the controller leaves it; the last message of each cell is lost."""
    each = [BalanceCell.keyed(interval_ms, 0) for interval_ms in intervals_ms]
    simulated = []
    for cell in each:
        columns = rows_of(cell.interval_ms, messages)
        simulated.append(Simulated(cell, np.full(messages, TOTAL_NS), cell.interval_ms, 1, columns))
    store = sample(simulated)
    for at, cell in enumerate(each):
        rows = range(at * messages, (at + 1) * messages)
        used = np.asarray(store["used"])[rows.start : rows.stop]
        sent = np.asarray(store["sent_ns"])[rows.start : rows.stop]
        measured_ns = np.where(used >= 0, sent - round(cell.interval_ms * MS) + (TOTAL_NS - ROBOT_NS) // 2, ABSENT)
        fill(store, rows, measured_ns=measured_ns, used=np.where(used >= 0, used + rows.start, ABSENT))
        store["tilt_urad"][rows.stop - 1] = ABSENT
    p = asked(each, messages)
    cells = []
    for at, cell in enumerate(each):
        more = {"duplicates": 0, "out_of_order": 0, "disconnects": 0}
        document = entry(CellResult(cell, more), store, p.rows(at))
        cells.append({**document, **control_figures(store, [p.rows(at)], round(cell.interval_ms * MS))})
    lines = [samples_header(BalanceCell, SAMPLES), *sample_lines(p, store, range(store.count), SAMPLES)]
    parameters = {"scenario": scenario, "fidelity": fidelity, "intervals_ms": list(intervals_ms), "qos": [0],
                  "messages": messages, "command": "B", "controller": "lqr", "gains": [], "load": "none"}  # fmt: skip
    run = results / f"{start}-{scenario}"
    return finish(run, NAME, cells, parameters, {"samples.csv": lines}, fidelity=fidelity, treatments=[])
