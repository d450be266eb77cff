"""From a selection of stored runs to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from looplab.experiments.loop.report import published
from looplab.experiments.loop.report.causes import beside
from looplab.experiments.loop.report.cells import read_cells
from looplab.experiments.loop.report.claims import Claim, Measured, Runs, Verdict, claims
from looplab.experiments.loop.report.notes import notes
from looplab.experiments.loop.report.tables import Table, table
from looplab.report.stored import Selection, StoredRun, Unusable, run_order

FIDELITIES = ("thesis", "corrected")
# Fixed, so that the same runs give the same report.
SEED = 20201028


@dataclass(frozen=True)
class Analysis:
    """The runs that are used, the answers they give, and what was left out and why."""

    measured: Sequence[Measured]
    runs: Mapping[str, Runs]
    verdicts: Sequence[tuple[Claim, Mapping[str, Verdict]]]
    tables: Sequence[tuple[str, Mapping[str, Table]]]
    notes: Sequence[str]
    unusable: Sequence[Unusable] = field(default_factory=list)
    older: Sequence[StoredRun] = field(default_factory=list)

    @property
    def fidelities(self) -> list[str]:
        """Those of the lab, then any other that a run names."""
        return [*FIDELITIES, *sorted(set(self.runs) - set(FIDELITIES))]


def analyse(selection: Selection) -> Analysis:
    """Read, check and analyse the selected runs, one for each scenario and fidelity."""
    measured = _measure(selection)
    runs: dict[str, dict[str, Measured]] = {}
    for m in measured:
        runs.setdefault(m.run.fidelity, {})[m.run.scenario] = m
    return Analysis(
        measured=measured,
        runs=runs,
        verdicts=_verdicts(runs),
        tables=_tables(runs),
        notes=notes(measured),
        unusable=selection.unusable,
        older=selection.older,
    )


def _measure(selection: Selection) -> list[Measured]:
    """One run for each scenario and fidelity: the newest whose samples are sound."""
    waiting = sorted([*selection.runs, *selection.older], key=lambda run: run.path.name)
    selection.older = []
    held: dict[tuple[str, str], Measured] = {}
    while waiting:
        run = waiting.pop()
        if (run.scenario, run.fidelity) in held:
            selection.older.append(run)
            continue
        cells = read_cells(run)
        if isinstance(cells, Unusable):
            selection.unusable.append(cells)
            continue
        for cell in cells:
            cell.analyse()
        held[run.scenario, run.fidelity] = Measured(run, {(cell.interval_ms, cell.qos): cell for cell in cells})
    return sorted(held.values(), key=lambda m: run_order(m.run))


def _verdicts(runs: Mapping[str, Runs]) -> Sequence[tuple[Claim, Mapping[str, Verdict]]]:
    answered = []
    for claim in claims():
        verdicts = {}
        for fidelity in FIDELITIES:
            verdict = claim.judge(runs.get(fidelity, {}), np.random.default_rng(SEED))
            verdict.beside += beside(claim.name, fidelity, runs)
            verdicts[fidelity] = verdict
        answered.append((claim, verdicts))
    return answered


def _tables(runs: Mapping[str, Runs]) -> Sequence[tuple[str, Mapping[str, Table]]]:
    """Every scenario of the thesis, then every other that was run; for each fidelity that has a run of it."""
    named = list(dict.fromkeys(row.scenario for rows in published.tables().values() for row in rows))
    others = sorted({m.run.scenario for held in runs.values() for m in held.values()} - set(named))
    result = []
    for scenario in [*named, *others]:
        held = {fidelity: found[scenario] for fidelity, found in runs.items() if scenario in found}
        shown: dict[str, Table] = {fidelity: table(scenario, m) for fidelity, m in sorted(held.items(), reverse=True)}
        result.append((scenario, shown or {"": table(scenario, None)}))
    return result
