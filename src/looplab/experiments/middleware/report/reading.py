"""Read samples.csv and histograms.csv of a stored run; both must agree with run.json."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from looplab.experiments.middleware.document import FATES, KEYS
from looplab.experiments.middleware.histogram import Histogram
from looplab.experiments.middleware.report import MeasuredLoad, Repetition
from looplab.report.cell import Key, MeasuredCell
from looplab.report.csv_file import WORD, Unreadable, read_csv
from looplab.report.stored import StoredRun, Unusable

_CELL = [*KEYS, "repetition"]
_NOTHING = np.empty(0, dtype=np.int64)


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if its files do not agree."""
    numbers, counts = (*_CELL, "upper_ns", "count"), ["due", *FATES]
    try:
        samples = read_csv(run.path / "samples.csv", dict.fromkeys((*_CELL, *counts), "int64"))
        lines = read_csv(run.path / "histograms.csv", {**dict.fromkeys(numbers, "int64"), "time": WORD})
    except Unreadable as error:
        return run.damaged(f"Its files cannot be read ({error}).")
    counted = samples.groupby(_CELL)[counts].sum().T.to_dict("list")
    histograms = _histograms(lines)
    cells = {}
    for key, document in run.cells.items():
        repeated = []
        for entry in document["by_repetition"] or ():
            at = (*map(int, key), int(entry["repetition"]))
            times = histograms.get(at, {})
            if trouble := _disagreement(entry, counted.get(at, [0] * len(counts)), times):
                return run.damaged(f"{trouble} at {run.layout.text(key)}. A file was cut short or edited.")
            one = {**dict(zip(KEYS, key, strict=True)), **entry}
            repeated.append(Repetition(one, _NOTHING, {}, round=(run.run_id, at[-1]), histograms=times))
        cells[key] = MeasuredLoad(document, _NOTHING, {}, repeated=tuple(repeated))
    return cells


def _histograms(lines: pd.DataFrame) -> dict[tuple[int, ...], dict[str, Histogram]]:
    """Return the histograms of each repetition, by the times that they are of."""
    histograms: dict[tuple[int, ...], dict[str, Histogram]] = {}
    for (*at, name), part in lines.groupby([*_CELL, "time"], observed=True):
        counts = dict(zip(part["upper_ns"].tolist(), part["count"].tolist(), strict=True))
        histograms.setdefault(tuple(at), {})[name] = Histogram(counts, min_ns=min(counts), max_ns=max(counts))
    return histograms


def _disagreement(entry: Mapping[str, Any], counted: list[int], times: Mapping[str, Histogram]) -> str:
    for name, count in zip(("requests", *FATES), counted, strict=True):
        if count != entry[name]:
            return f"samples.csv and run.json disagree: {count} against {entry[name]} {name}"
    timed = times["response"].count if "response" in times else 0
    return "" if timed == entry["succeeded"] else f"histograms.csv holds {timed} of {entry['succeeded']} responses"
