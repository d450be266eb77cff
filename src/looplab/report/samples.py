"""Read samples.csv as columns, cell by cell; it must agree with run.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from looplab.report.cell import Cell, Key
from looplab.report.stored import Layout, Selection, StoredRun, Unusable, run_order

AVERAGE_TOLERANCE_US = 0.01
MEASURED = ("answered", "late")


@dataclass(frozen=True)
class Measured:
    """A stored run and its cells by key."""

    run: StoredRun
    cells: Mapping[Key, Cell]

    def __str__(self) -> str:
        return f"{self.run.scenario} ({self.run.fidelity})"


# The measured runs of one fidelity, by scenario.
Runs = Mapping[str, Measured]


def measure(selection: Selection) -> list[Measured]:
    """Return the newest run of each scenario and fidelity whose samples are sound, in the order of a report.

    The other runs of `selection` go to its `older` and `unusable`.
    """
    held: dict[tuple[str, str], Measured] = {}
    for run in sorted(selection.runs, key=lambda run: run.path.name, reverse=True):
        if (run.scenario, run.fidelity) in held:
            selection.older.append(run)
            continue
        cells = read_cells(run)
        if isinstance(cells, Unusable):
            selection.unusable.append(cells)
        else:
            held[run.scenario, run.fidelity] = Measured(run, cells)
    return sorted(held.values(), key=lambda m: run_order(m.run))


def by_fidelity(measured: Sequence[Measured]) -> dict[str, dict[str, Measured]]:
    """Return the runs by fidelity and scenario."""
    runs: dict[str, dict[str, Measured]] = {}
    for m in measured:
        runs.setdefault(m.run.fidelity, {})[m.run.scenario] = m
    return runs


def read_cells(run: StoredRun) -> Mapping[Key, Cell] | Unusable:
    """Return the cells of a run by key; Unusable if samples.csv does not agree with run.json."""
    try:
        frame = _read(run.path / "samples.csv", run.layout)
    except (pl.exceptions.PolarsError, OSError) as error:
        lines = str(error).splitlines()
        return run.damaged(f"samples.csv cannot be read ({lines[0] if lines else 'empty'}).")
    trouble = _disagreement(run, frame)
    if not trouble:
        cells = {key: _cell(run.layout, key, cell, frame) for key, cell in run.cells.items()}
        trouble = "".join(_edited(cell) for cell in cells.values())
    return run.damaged(trouble) if trouble else cells


def _read(path: Path, layout: Layout) -> pl.DataFrame:
    """Stream the columns that are used: ten million lines take some 350 MB."""
    columns: dict[str, Any] = {
        **{name: pl.Float32 if name.endswith("_ms") else pl.Int32 for name in layout.keys},
        "repetition": pl.Int32,
        **dict.fromkeys(layout.metrics.values(), pl.Float64),
        "outcome": pl.Enum(list(layout.outcomes)),
        **({"due_ns": pl.Int64} if layout.block_s else {}),
    }
    with path.open("rb") as file:
        header = file.readline().decode("ascii", "replace").strip()
    if not set(columns) <= set(header.split(",")):
        raise OSError(f"its first line is not that of a samples.csv: {header[:60]!r:.62}")
    return pl.scan_csv(path, schema_overrides=columns).select(*columns).collect(engine="streaming")


def _disagreement(run: StoredRun, frame: pl.DataFrame) -> str:
    broken = frame.filter(pl.any_horizontal(pl.col(*run.layout.keys, "outcome").is_null())).height
    if broken:
        return f"{broken} line(s) of samples.csv are not whole. It was cut short or edited."
    counted = {
        (tuple(round(float(value), 3) for value in key), str(outcome)): int(n)
        for *key, outcome, n in frame.group_by(*run.layout.keys, "outcome").len().iter_rows()
    }
    for key, cell in run.cells.items():
        for outcome, count in run.layout.outcomes.items():
            found = counted.pop((tuple(round(value, 3) for value in key), outcome), 0)
            if found != cell.get(count, 0):
                return (
                    f"samples.csv and run.json disagree at {run.layout.text(key)}: {found} against "
                    f"{cell.get(count, 0)} {outcome.replace('_', ' ')}. It was cut short or edited."
                )
    if counted:
        return f"samples.csv holds a cell that run.json does not know: {run.layout.text(next(iter(counted))[0])}."
    latencies = frame.filter(pl.col("outcome").is_in(MEASURED)).select(pl.col(*run.layout.metrics.values()))
    unsound = latencies.select(pl.sum_horizontal(~pl.all().is_finite().fill_null(False)).sum()).item()
    return f"{unsound} latencies of answered messages in samples.csv are no numbers." if unsound else ""


def _edited(cell: Cell) -> str:
    """Compare the averages, which both files hold to three decimals: a difference means one file was changed."""
    for metric in cell.latency_us:
        found, told = cell.statistic(metric, "avg"), cell.document.get(f"{metric}_us", {}).get("avg")
        if found is not None and told is not None and abs(told - found) > AVERAGE_TOLERANCE_US:
            return (
                f"The mean {metric} at {cell} is {found:.3f} us in samples.csv and {told:.3f} us in run.json: one of "
                "the two was edited. "
            )
    return ""


def _cell(layout: Layout, key: Key, document: Mapping[str, Any], frame: pl.DataFrame) -> Cell:
    of_cell = [pl.col(n) == pl.lit(value, dtype=frame[n].dtype) for n, value in zip(layout.keys, key, strict=True)]
    held = frame.filter(*of_cell)
    measured = held.filter(pl.col("outcome").is_in(MEASURED))
    if layout.block_s:
        since_s = (measured["due_ns"] - held["due_ns"].min()).to_numpy() / 1e9
        repetition = np.floor(since_s / layout.block_s).astype(np.int64)
    else:
        repetition = measured["repetition"].to_numpy()
    latency_us = {metric: measured[column].to_numpy() for metric, column in layout.metrics.items()}
    return layout.cell(key, layout.text(key), document, repetition, latency_us)
