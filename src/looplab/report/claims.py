"""Claims as lines of claims.csv: which runs answer each, and how."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from looplab.report.csv_rows import read_rows
from looplab.report.rounds import compared, left_out_notes, planned, study_of, unfit, withhold, within
from looplab.report.rules import Answer, rule_of
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.verdicts import Claim, Printed, Verdict, not_run
from looplab.spec.experiment import Experiment


@dataclass(frozen=True)
class Row:
    """A line of claims.csv; what it leaves out is "".

    Runs of `scenarios` ("one; another") answer it, else of the first and the last scenario of its study. `./lab study`
    plans them by the name `study`, if not by its own. `about` begins the names of what may differ between two
    scenarios; "" compares nothing. A `figure` in `unit` of the cells that `within` names decides by a `rule`; `what` is
    the figure in a sentence. `before` and `after` are published.
    """

    name: str
    title: str
    scenarios: str = ""
    study: str = ""
    family: str = ""
    about: str = ""
    within: str = ""
    figure: str = ""
    unit: str = ""
    what: str = ""
    rule: str = ""
    before: str = ""
    after: str = ""
    note: str = ""

    @property
    def printed(self) -> Printed:
        """The published figures."""
        return Printed(float(self.before), float(self.after)) if self.before else Printed()


def rows(experiment: Experiment) -> list[Row]:
    """Return the lines of claims.csv in the report of an experiment; none without that file."""
    path = experiment.folder / "report" / "claims.csv"
    return [Row(**line) for line in read_rows(path)] if path.is_file() else []


def claims_of(experiment: Experiment, answers: Mapping[str, Answer]) -> list[Claim]:
    """Return the claims in claims.csv, each with what answers it by name; any other compares its figure."""
    return [asked(experiment, row, answers.get(row.name) or partial(_figure_compared, row)) for row in rows(experiment)]


def asked(
    experiment: Experiment,
    row: Row,
    answer: Answer,
    any_with: Callable[[MeasuredRuns], object] | None = None,
    **more: Any,
) -> Claim:
    """Return the claim of a line that `answer` answers, with `more` of a Claim.

    With `any_with`, those of its scenarios count alone for whose runs that is true.
    """
    study = row.study or (row.name if row.name in experiment.studies else row.scenarios)
    of_study = experiment.studies.get(study, ())
    scenarios = row.scenarios.split("; ") if row.scenarios else [*dict.fromkeys((of_study[0], of_study[-1]))]

    def judge(runs: Runs) -> Verdict:
        sides = [runs[one] for one in scenarios if one in runs and (any_with is None or any_with(runs[one]))]
        if not sides or (any_with is None and len(sides) < len(scenarios)):
            missing = ", ".join(one for one in scenarios if any_with or one not in runs)
            cells = " with the cells of this claim" if any_with else ""
            return not_run(f"No usable run of {missing}{cells}: ./lab study {study}")
        of_runs = study_of(sides)
        used = [within(of_runs, side) for side in sides]
        verdict = answer(*used)
        verdict.published = row.printed if row.before else verdict.published
        if verdict.run:
            verdict.run_ids = [run_id for side in used for run_id in side.run_ids]
            left_out = left_out_notes(of_runs, *zip(sides, used, strict=True))
            verdict.notes = [*filter(None, [row.note]), *verdict.notes, planned(of_runs, row.name, used), *left_out]
            if not verdict.because:
                withhold(verdict, (max if any_with else min)(len(side.runs) for side in used), of_runs)
            if trouble := unfit(used, row.about.split() or None):
                verdict.withdraw(trouble)
        return verdict

    return Claim(row.name, row.title, judge, study=study, family=row.family, **more)


def _figure_compared(row: Row, *used: MeasuredRuns) -> Verdict:
    """Compare a figure of the first and the last scenario; `within` are the keys of the cell of each ("20 0;20 2")."""
    figure, keys = row.figure, row.within.split(";")
    before, after = keys[0], keys[-1]
    sides = (used[0], partial(_figure_of, figure, before)), (used[-1], partial(_figure_of, figure, after))
    verdict = compared({figure: sides}, rule_of(row.rule, row.what), row.unit)
    verdict.sides = f"{used[0].run.scenario} {before}".strip(), f"{used[-1].run.scenario} {after}".strip()
    return verdict


def _figure_of(figure: str, key: str, one: MeasuredRuns) -> float:
    """Return a figure of the cell with this key, of a run's only cell without one; NaN if the run has none."""
    cells = [cell for cell in one.cells.values() if key in ("", " ".join(cell.key_texts.values()))]
    found = cells[0].figure(figure) if cells else None
    return math.nan if found is None else found
