"""The queue over time, from the sends and commits of samples.csv."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from looplab.experiments.twin.report.cell import MeasuredTwin
from looplab.report.csv_file import KEY, NUMBER, WORD, read_csv
from looplab.report.stored import StoredRun

# As many points as a figure can show.
POINTS = 400
_KEYS = ("interval_ms", "brokers", "placement", "write_mode", "qos", "repetition")
_COLUMNS = {
    **{name: WORD if name in ("placement", "write_mode") else KEY for name in _KEYS},
    "outcome": WORD,
    "sent_ns": NUMBER,
    "received_ns": NUMBER,
}


@dataclass(frozen=True)
class Curve:
    """Seconds since a cell's first message and the messages that wait then."""

    cell: MeasuredTwin
    at_s: list[float]
    length: list[int]


def curves(run: StoredRun, cells: list[MeasuredTwin]) -> list[Curve]:
    """Return the queue over time of each of these cells of the run."""
    samples = read_csv(run.path / "samples.csv", _COLUMNS)
    return [_curve(samples, cell) for cell in cells]


def _curve(samples: pd.DataFrame, cell: MeasuredTwin) -> Curve:
    of_cell = [samples[name] == value for name, value in zip(_KEYS, cell.key, strict=True)]
    held = samples[np.logical_and.reduce(of_cell)]
    sent = held["sent_ns"].to_numpy()
    committed = held.loc[held["outcome"] == "stored", "received_ns"].to_numpy()
    at = np.concatenate([sent, committed])
    steps = np.repeat([1, -1], [sent.size, committed.size])
    # Commits first where both are at one time, as in run.json.
    order = np.lexsort((steps, at))
    length = np.cumsum(steps[order])
    if not sent.size:
        return Curve(cell, [], [])
    shown = np.unique(np.linspace(0, order.size - 1, POINTS).astype(int))
    at_s = (at[order] - sent.min()) / 1e9
    return Curve(cell, at_s[shown].tolist(), length[shown].tolist())
