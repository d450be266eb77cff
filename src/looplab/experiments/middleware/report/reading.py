"""Read samples.csv and histograms.csv of a stored run; both must agree with run.json."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from looplab.experiments.middleware.document import FATES, KEYS
from looplab.experiments.middleware.histogram import Histogram
from looplab.experiments.middleware.report.cell import MeasuredLoad, Repetition
from looplab.report.cell import Key, MeasuredCell
from looplab.report.csv_file import WORD, Unreadable, read_csv
from looplab.report.stored import StoredRun, Unusable

_CELL = (*KEYS, "repetition")
# The repetition of a cell: its key and its number.
_Repetition = tuple[int, ...]


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if its files do not agree."""
    try:
        counted = _counted(read_csv(run.path / "samples.csv", dict.fromkeys((*_CELL, "due", *FATES), "int64")))
        columns = {**dict.fromkeys((*_CELL, "upper_ns", "count"), "int64"), "time": WORD}
        histograms = _histograms(read_csv(run.path / "histograms.csv", columns))
    except Unreadable as error:
        return run.damaged(f"Its files cannot be read ({error}).")
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


def _counted(samples: pd.DataFrame) -> dict[_Repetition, dict[str, int]]:
    """Return the sums of samples.csv by repetition."""
    sums = samples.groupby(list(_CELL))[["due", *FATES]].sum()
    return {at: dict(zip(("requests", *FATES), row, strict=True)) for at, *row in sums.itertuples(name=None)}


def _histograms(lines: pd.DataFrame) -> dict[_Repetition, dict[str, Histogram]]:
    found: dict[_Repetition, dict[str, Histogram]] = {}
    for (*at, name), part in lines.groupby([*_CELL, "time"], observed=True):
        counts = dict(zip(part["upper_ns"].tolist(), part["count"].tolist(), strict=True))
        whole = Histogram(counts, min_ns=min(counts), max_ns=max(counts))
        found.setdefault(tuple(at), {})[name] = whole
    return found


def _disagreement(entry: Mapping[str, Any], counted: Mapping[str, int], found: Mapping[str, Histogram]) -> str:
    for name in ("requests", *FATES):
        if counted.get(name, 0) != entry[name]:
            return f"samples.csv and run.json disagree: {counted.get(name, 0)} against {entry[name]} {name}"
    timed = found["response"].count if "response" in found else 0
    return "" if timed == entry["succeeded"] else f"histograms.csv holds {timed} of {entry['succeeded']} responses"
