"""samples.csv as columns, cell by cell; what it holds must be what run.json says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from looplab.experiments.loop.document import robot_free_us
from looplab.report.statistics import Floats, Interval, cell_intervals
from looplab.report.stored import StoredRun, Unusable

METRICS = {"T": "total_us", "R": "robot_us", "O": "overhead_us"}
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
OUTCOMES = ("answered", "late", "lost", "robot_error")
_COUNTS = {"answered": "answered", "late": "late", "lost": "lost", "robot_error": "robot_errors"}
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "interval_ms": pl.Float32,
    "qos": pl.Int8,
    "repetition": pl.Int32,
    "sequence": pl.Int64,
    "due_ns": pl.Int64,
    "sent_ns": pl.Int64,
    "received_ns": pl.Int64,
    "total_us": pl.Float64,
    "robot_us": pl.Float64,
    "overhead_us": pl.Float64,
    "outcome": pl.Enum(OUTCOMES),
}
# A repetition's own figure needs at least this many answers.
FEWEST_ANSWERS = 5
AVERAGE_TOLERANCE_US = 0.01


@dataclass
class Cell:
    """One cell of a run: the latencies that were measured, whose repetition each is, and the counts of run.json."""

    interval_ms: float
    qos: int
    counts: dict[str, Any]
    repetition: NDArray[np.int32]
    latency_us: dict[str, Floats]
    mean: dict[str, Interval] = field(default_factory=dict)
    quantiles: dict[str, dict[str, Interval]] = field(default_factory=dict)
    by_repetition: dict[str, dict[str, Floats]] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        return int(self.counts["answered"])

    @property
    def sent(self) -> int:
        return int(self.counts["sent"])

    @property
    def measured(self) -> int:
        return int(self.repetition.size)

    @property
    def repetitions(self) -> int:
        """Those that have at least one latency."""
        return int(np.unique(self.repetition).size)

    @property
    def lateness_p99_us(self) -> float | None:
        value = (self.counts.get("send_lateness_us") or {}).get("p99")
        return None if value is None else float(value)

    @property
    def robot_free_us(self) -> dict[str, float]:
        """See looplab.experiments.loop.document.robot_free_us."""
        return robot_free_us(self.counts)

    def analyse(self) -> None:
        """Fill in the intervals and the figures of each repetition."""
        for metric, values in self.latency_us.items():
            if values.size == 0:
                continue
            mean, quantiles = cell_intervals(values, self.repetition, list(QUANTILES.values()))
            self.mean[metric] = mean
            self.quantiles[metric] = dict(zip(QUANTILES, quantiles, strict=True))
        self.by_repetition["O"] = self._figures("O")

    def _figures(self, metric: str) -> dict[str, Floats]:
        """mean, p50 and p95 of every repetition that has enough answers."""
        order = np.argsort(self.repetition, kind="stable")
        values = self.latency_us[metric][order]
        starts = np.flatnonzero(np.diff(self.repetition[order])) + 1
        pieces = [piece for piece in np.split(values, starts) if piece.size >= FEWEST_ANSWERS]
        return {
            "mean": np.array([piece.mean() for piece in pieces]),
            "p50": np.array([np.quantile(piece, 0.50) for piece in pieces]),
            "p95": np.array([np.quantile(piece, 0.95) for piece in pieces]),
        }


def read_cells(run: StoredRun) -> list[Cell] | Unusable:
    """The cells of a run; Unusable where samples.csv is not what run.json says."""
    try:
        frame = _read(run.path / "samples.csv")
    except (pl.exceptions.PolarsError, OSError) as error:
        lines = str(error).splitlines()
        return Unusable(run.path.name, "damaged", f"samples.csv cannot be read ({lines[0] if lines else 'empty'}).")
    trouble = _disagreement(run, frame)
    if trouble:
        return Unusable(run.path.name, "damaged", trouble)
    cells = list(_cells(run, frame))
    trouble = "".join(_edited(cell) for cell in cells)
    return Unusable(run.path.name, "damaged", trouble) if trouble else cells


def _read(path: Path) -> pl.DataFrame:
    """Streamed, and only the columns that are used: ten million lines take some 350 MB."""
    with path.open("rb") as file:
        header = file.readline().decode("ascii", "replace").strip()
    if header != ",".join(_SCHEMA):
        raise OSError(f"its first line is not that of a samples.csv: {header[:60]!r:.62}")
    columns = ["interval_ms", "qos", "repetition", *METRICS.values(), "outcome"]
    return pl.scan_csv(path, schema=_SCHEMA).select(columns).collect(engine="streaming")


def _disagreement(run: StoredRun, frame: pl.DataFrame) -> str:
    counted = {
        (round(float(interval), 3), int(qos), str(outcome)): int(n)
        for interval, qos, outcome, n in frame.group_by("interval_ms", "qos", "outcome").len().iter_rows()
    }
    for cell in run.document["cells"]:
        for outcome, key in _COUNTS.items():
            found = counted.pop((round(float(cell["interval_ms"]), 3), int(cell["qos"]), outcome), 0)
            if found != cell[key]:
                return (
                    f"samples.csv and run.json disagree at {cell['interval_ms']:g} ms, QoS {cell['qos']}: "
                    f"{found} against {cell[key]} {outcome.replace('_', ' ')}. It was cut short or edited."
                )
    if counted:
        interval, qos, _ = next(iter(counted))
        return f"samples.csv holds a cell that run.json does not know: {interval:g} ms, QoS {qos}."
    measured = frame.filter(pl.col("outcome").is_in(["answered", "late"]))
    unsound = measured.select(pl.sum_horizontal(~pl.col(*METRICS.values()).is_finite().fill_null(False)).sum()).item()
    return f"{unsound} latencies of answered messages in samples.csv are no numbers." if unsound else ""


def _edited(cell: Cell) -> str:
    """Averages are kept twice, to three decimals: where they differ, one of the two files was changed."""
    for metric, values in cell.latency_us.items():
        told = (cell.counts.get(f"{metric}_us") or {}).get("avg")
        if values.size and told is not None and abs(float(told) - float(values.mean())) > AVERAGE_TOLERANCE_US:
            return (
                f"The mean {metric} at {cell.interval_ms:g} ms, QoS {cell.qos} is {values.mean():.3f} us in "
                f"samples.csv and {told:.3f} us in run.json: one of the two was edited. "
            )
    return ""


def _cells(run: StoredRun, frame: pl.DataFrame) -> Iterator[Cell]:
    for counts in run.document["cells"]:
        measured = frame.filter(
            (pl.col("interval_ms") == pl.lit(counts["interval_ms"], dtype=pl.Float32))
            & (pl.col("qos") == counts["qos"])
            & pl.col("outcome").is_in(["answered", "late"])
        )
        yield Cell(
            interval_ms=float(counts["interval_ms"]),
            qos=int(counts["qos"]),
            counts=counts,
            repetition=measured["repetition"].to_numpy(),
            latency_us={metric: measured[column].to_numpy() for metric, column in METRICS.items()},
        )
