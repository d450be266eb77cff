"""Read samples.csv, and other CSV files of a run, as columns, cell by cell; it must agree with run.json."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from looplab.report.cell import STATISTICS, Key, MeasuredCell
from looplab.report.schema import LONGEST
from looplab.report.stored import Layout, Selection, StoredRun, Unusable, differences, run_order
from looplab.report.study_file import Study, read_studies
from looplab.run.folder import age
from looplab.spec.cell import Cell

TOLERANCE_US = 0.01
KEY, NUMBER, WORD = "float32", "float64", "category"


@dataclass(frozen=True)
class MeasuredRuns:
    """One scenario at one fidelity: its newest run, its cells by key, and `runs`, each run that repeats it.

    Of several runs, each cell is that of all of them. `earlier` are the runs of finished studies that differ from the
    newest run, in groups alike, the newest first: figures show none of them, verdicts rest on them. `study` is the one
    that the runs of a verdict are of.
    """

    run: StoredRun
    cells: Mapping[Key, MeasuredCell]
    repeated: Sequence["MeasuredRuns"] = ()
    earlier: Sequence["MeasuredRuns"] = ()
    study: Study | None = None

    @property
    def runs(self) -> Sequence["MeasuredRuns"]:
        """The runs, the oldest first; of a single run itself."""
        return self.repeated or (self,)

    @property
    def run_ids(self) -> list[str]:
        return [one.run.run_id for one in self.runs]

    def __str__(self) -> str:
        return f"{self.run.scenario} ({self.run.fidelity})"


# The measured runs of one fidelity, by scenario.
Runs = Mapping[str, MeasuredRuns]


def measure(selection: Selection) -> list[MeasuredRuns]:
    """Return each scenario, fidelity and factors in the order of a report: its newest sound run and all that repeat it.

    A run repeats another if its parameters, machine and state of the lab are the same. INVALID ones are used only where
    none is valid. The rest of `selection.runs` goes to its `set_aside` and `unusable`.
    """
    by_kind: dict[tuple[object, ...], list[list[MeasuredRuns]]] = {}
    studied = _studied(selection.runs)
    for run in sorted(selection.runs, key=lambda run: age(run.run_id), reverse=True):
        groups = by_kind.setdefault((run.scenario, run.fidelity, run.factors, run.overrides), [])
        alike = next((group for group in groups if not differences(group[0].run, run)), None)
        if groups and alike is not groups[0]:
            unlike = differences(groups[0][0].run, run)
            stays = "; its study's verdict stands" if run.run_id in studied else ""
            selection.set_aside.append((run, f"a newer run is used, which differs: {unlike[0]}{stays}"))
            if not stays:
                continue
        try:
            cells = read_cells(run)
        except Unusable as damaged:
            selection.unusable.append(damaged)
            continue
        if alike is None:
            groups.append(alike := [])
        alike.append(MeasuredRuns(run, cells))
    shown = [[_group(alike, selection) for alike in groups] for groups in by_kind.values() if groups]
    return sorted((replace(newest, earlier=earlier) for newest, *earlier in shown), key=lambda m: run_order(m.run))


def _studied(runs: Sequence[StoredRun]) -> set[str]:
    """Return the ids of the runs of finished studies: of each set of scenarios, brokers and fidelity the newest."""
    newest: dict[tuple[object, ...], Study] = {}
    for folder in {run.path.parent for run in runs}:
        for study in read_studies(folder):
            if not study.left:
                what = (*study.arms.values(), *study.variants.values())
                newest[folder, frozenset(what), study.options.get("FIDELITY")] = study
    return {run_id for study in newest.values() for run_id in study.places}


def _group(alike: Sequence[MeasuredRuns], selection: Selection) -> MeasuredRuns:
    """Return the runs, newest first, as one."""
    used = [m for m in alike if m.run.valid] or alike[:1]
    left = [m.run for m in alike if m not in used]
    selection.set_aside += [(run, "INVALID, and there is a valid run like it") for run in left]
    return grouped(used[::-1])


def grouped(runs: Sequence[MeasuredRuns]) -> MeasuredRuns:
    """Return runs that repeat each other, the oldest first, as one."""
    if len(runs) == 1:
        return runs[0]
    keys = dict.fromkeys(key for m in reversed(runs) for key in m.cells)
    cells = {key: _pooled([m.cells[key] for m in runs if key in m.cells]) for key in keys}
    return MeasuredRuns(runs[-1].run, cells, runs)


def _pooled(cells: Sequence[MeasuredCell]) -> MeasuredCell:
    """Return one cell of several runs. Its columns are those of all runs, its document is that of the newest."""
    newest = cells[-1]
    if len(cells) == 1:
        return newest
    return replace(
        newest,
        repetition_of=_numbered([c.repetition_of for c in cells]),
        latency_us={m: np.concatenate([c.latency_us[m] for c in cells]) for m in newest.latency_us},
        response_us=np.concatenate([c.response_us for c in cells]),
        response_repetition=_numbered([c.response_repetition for c in cells]),
        runs=tuple(cells),
    )


def _numbered(repetitions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the repetitions of several runs with numbers that differ from run to run."""
    most = max((int(one.max()) for one in repetitions if one.size), default=0) + 1
    return np.concatenate([one + at * most for at, one in enumerate(repetitions)])


def by_fidelity(measured: Sequence[MeasuredRuns], *, factors: bool = False) -> dict[str, dict[str, MeasuredRuns]]:
    """Return the runs by fidelity and scenario; those with a fidelity's factor overridden only where no others are.

    With `factors`, runs with a factor set are apart: "SCENARIO FACTOR=value".
    """
    runs: dict[str, dict[str, MeasuredRuns]] = {}
    for m in sorted(measured, key=lambda m: not m.run.overrides):
        runs.setdefault(m.run.fidelity, {})[" ".join((m.run.scenario, *(m.run.factors if factors else ())))] = m
    return runs


def read_cells(run: StoredRun) -> Mapping[Key, MeasuredCell]:
    """Return the cells of a run by key. Raises Unusable if samples.csv does not agree with run.json."""
    if run.layout.read:
        return run.layout.read(run)
    try:
        samples = read_csv(run.path / "samples.csv", _columns(run.layout))
    except (ValueError, OSError) as error:
        why = str(error).strip().splitlines()[0][:LONGEST]
        raise run.damaged(f"samples.csv cannot be read ({why}).") from error
    broken = samples[[*run.layout.keys, "repetition", "outcome"]].isna().any(axis="columns").sum()
    if broken:
        raise run.damaged(f"{broken} line(s) of samples.csv are not whole. It was cut short or edited.")
    by_key = {_rounded(key): lines for key, lines in samples.groupby(list(run.layout.keys), observed=True)}
    # Of ten million lines, one copy is enough.
    nothing, samples = samples[:0], None
    cells = {}
    for key, document in run.cells.items():
        lines = by_key.pop(_rounded(key), nothing)
        if trouble := _disagreement(run.layout, document, lines):
            where = run.layout.text(key)
            raise run.damaged(f"samples.csv and run.json disagree at {where}: {trouble}. One of them was edited.")
        cells[key] = _cell(run.layout, document, lines)
    if by_key:
        unknown = run.layout.text(next(iter(by_key)))
        raise run.damaged(f"samples.csv holds a cell that run.json does not know: {unknown}.")
    if trouble := "".join(_edited(cell) for cell in cells.values()):
        raise run.damaged(trouble)
    return cells


def _columns(layout: Layout) -> dict[str, str]:
    return {
        **key_types(layout.cell),
        "repetition": KEY,
        **dict.fromkeys(layout.metrics.values(), NUMBER),
        "outcome": WORD,
        **dict.fromkeys(layout.times, NUMBER),
    }


def _rounded(key: Sequence[float | str]) -> Key:
    return tuple(value if isinstance(value, str) else round(float(value), 3) for value in key)


def _disagreement(layout: Layout, cell: Mapping[str, Any], lines: pd.DataFrame) -> str:
    """Return in what the lines of a cell disagree with run.json, "" if in nothing."""
    sampled = lines["outcome"].value_counts()
    for outcome, count in layout.outcomes.items():
        if (found := int(sampled.get(outcome, 0))) != cell.get(count, 0):
            return f"{found} against {cell.get(count, 0)} {outcome.replace('_', ' ')}"
    if len(lines) != cell[layout.total]:
        return f"{len(lines)} against {cell[layout.total]} messages"
    answered = lines["outcome"].isin(layout.measured)
    unsound = sum(int((answered & ~np.isfinite(lines[name])).sum()) for name in layout.metrics.values())
    return f"{unsound} latencies of answered messages are not finite numbers" if unsound else ""


def _edited(cell: MeasuredCell) -> str:
    """Compare what both files hold to three decimals: a difference means one file was changed."""
    for metric, name in itertools.product(cell.latency_us, STATISTICS):
        sampled, stored = cell.statistic(metric, name), cell.document.get(f"{metric}_us", {}).get(name)
        if sampled is not None and stored is not None and abs(stored - sampled) > TOLERANCE_US:
            return (
                f"{metric} {name} at {cell} is {sampled:.3f} us in samples.csv and {stored:.3f} us in run.json: one "
                "of the two was edited. "
            )
    return ""


def _cell(layout: Layout, document: Mapping[str, Any], samples: pd.DataFrame) -> MeasuredCell:
    answered = samples["outcome"].isin(layout.measured).to_numpy()
    whose = samples["repetition"].to_numpy(dtype=np.int64)
    latency_us = {metric: samples[column].to_numpy()[answered] for metric, column in layout.metrics.items()}
    if not layout.times:
        return layout.cell(document, whose[answered], latency_us)
    due, received = (samples[name].to_numpy() for name in layout.times)
    # A message without a good answer never had one.
    response_us = np.where(answered, (received - due) / 1e3, np.inf)
    return layout.cell(document, whose[answered], latency_us, response_us, whose)


def key_types(cell: type[Cell]) -> dict[str, str]:
    """Return the types of the columns that say which cell a line is of."""
    return {key.name: WORD if key.kind is str else KEY for key in cell.key_columns()}


def lines_of(lines: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the lines of one cell."""
    return lines[np.logical_and.reduce([lines[name] == value for name, value in cell.key_document.items()])]


def read_csv(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the named columns of these types; an empty field is missing. Raises ValueError, OSError.

    A NUMBER is exact below 2**53: nanoseconds of a clock that has run for 104 days.
    """
    return pd.read_csv(path, usecols=list(columns), dtype=dict(columns), keep_default_na=False, na_values=[""])
