"""Read samples.csv and histograms.csv of a stored run; both must agree with run.json."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from looplab.experiments.middleware.document import FATES, HISTOGRAMS_HEADER, KEYS, SAMPLES_HEADER
from looplab.experiments.middleware.histogram import Histogram
from looplab.experiments.middleware.report.cell import MeasuredLoad, Repetition
from looplab.report.cell import Key, MeasuredCell
from looplab.report.stored import StoredRun, Unusable

_CELL = (*KEYS, "repetition")
# The repetition of a cell: its key and its number.
_Repetition = tuple[int, ...]


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if its files do not agree."""
    try:
        counted = _counted(_frame(run, "samples.csv", SAMPLES_HEADER))
        histograms = _histograms(_frame(run, "histograms.csv", HISTOGRAMS_HEADER))
    except (pl.exceptions.PolarsError, OSError) as error:
        return run.damaged(f"Its files cannot be read ({str(error).splitlines()[0]}).")
    cells = {}
    for key, document in run.cells.items():
        held = []
        for entry in document["by_repetition"]:
            at = (*map(int, key), int(entry["repetition"]))
            found = histograms.get(at, {})
            if trouble := _disagreement(entry, counted.get(at, {}), found):
                return run.damaged(f"{trouble} at {run.layout.text(key)}. A file was cut short or edited.")
            held.append(Repetition((run.run_id, at[-1]), entry, found))
        nothing = np.empty(0, dtype=np.int64)
        cells[key] = MeasuredLoad(document, nothing, {}, held=tuple(held))
    return cells


def _frame(run: StoredRun, name: str, header: str) -> pl.DataFrame:
    frame = pl.read_csv(run.path / name, infer_schema_length=None)
    if frame.columns != header.split(","):
        raise OSError(f"the first line of {name} is not that of a run of this experiment")
    return frame


def _counted(frame: pl.DataFrame) -> dict[_Repetition, dict[str, int]]:
    """Return the sums of samples.csv by repetition."""
    sums = frame.group_by(*_CELL).agg(pl.col("due", *FATES).sum())
    return {
        tuple(map(int, row[: len(_CELL)])): dict(zip(("requests", *FATES), map(int, row[len(_CELL) :]), strict=True))
        for row in sums.iter_rows()
    }


def _histograms(frame: pl.DataFrame) -> dict[_Repetition, dict[str, Histogram]]:
    found: dict[_Repetition, dict[str, Histogram]] = {}
    for (*at, name), part in frame.group_by(*_CELL, "time"):
        counts = dict(zip(part["upper_ns"].to_list(), part["count"].to_list(), strict=True))
        whole = Histogram(counts, min_ns=min(counts), max_ns=max(counts))
        found.setdefault(tuple(map(int, at)), {})[str(name)] = whole
    return found


def _disagreement(entry: Mapping[str, Any], counted: Mapping[str, int], found: Mapping[str, Histogram]) -> str:
    for name in ("requests", *FATES):
        if counted.get(name, 0) != entry[name]:
            return f"samples.csv and run.json disagree: {counted.get(name, 0)} against {entry[name]} {name}"
    timed = found["response"].count if "response" in found else 0
    return "" if timed == entry["succeeded"] else f"histograms.csv holds {timed} of {entry['succeeded']} responses"
