"""The queue over time, from the sends and commits of samples.csv."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from looplab.experiments.twin.report.cell import MeasuredTwin
from looplab.report.stored import StoredRun

# As many points as a figure can show.
POINTS = 400
_COLUMNS = {
    "interval_ms": pl.Float32,
    **dict.fromkeys(("brokers", "qos", "repetition"), pl.Int32),
    **dict.fromkeys(("placement", "write_mode", "outcome"), pl.String),
    **dict.fromkeys(("sent_ns", "received_ns"), pl.Int64),
}


@dataclass(frozen=True)
class Curve:
    """Seconds since a cell's first message and the messages that wait then."""

    cell: MeasuredTwin
    at_s: list[float]
    length: list[int]


def curves(run: StoredRun, cells: list[MeasuredTwin]) -> list[Curve]:
    """Return the queue over time of each of these cells of the run."""
    frame = pl.scan_csv(run.path / "samples.csv", schema_overrides=_COLUMNS).select(*_COLUMNS).collect()
    return [_curve(frame, cell) for cell in cells]


def _curve(frame: pl.DataFrame, cell: MeasuredTwin) -> Curve:
    names = ("interval_ms", "brokers", "placement", "write_mode", "qos", "repetition")
    held = frame.filter(
        *(pl.col(n) == pl.lit(value, dtype=frame[n].dtype) for n, value in zip(names, cell.key, strict=True))
    )
    sent = held["sent_ns"].to_numpy()
    committed = held.filter(pl.col("outcome") == "stored")["received_ns"].to_numpy()
    at = np.concatenate([sent, committed])
    steps = np.concatenate([np.ones_like(sent), -np.ones_like(committed)])
    # Commits first where both are at one time, as in run.json.
    order = np.lexsort((steps, at))
    length = np.cumsum(steps[order])
    if not sent.size:
        return Curve(cell, [], [])
    shown = np.unique(np.linspace(0, order.size - 1, POINTS).astype(int))
    at_s = (at[order] - sent.min()) / 1e9
    return Curve(cell, at_s[shown].tolist(), length[shown].tolist())
