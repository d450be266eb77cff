"""What does a load do to an application? Each claim compares runs beside it with runs without it."""

import math
from collections.abc import Mapping
from functools import partial

from looplab.experiments.own import EXPERIMENT
from looplab.report import rounds
from looplab.report.page import show_bounds, show_signed_ms
from looplab.report.printed import table
from looplab.report.rules import directed
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import over_runs
from looplab.report.verdicts import Claim, Line, Verdict, not_run
from looplab.system.words import plural


def claims() -> list[Claim]:
    """Return the claim on each load."""
    return [Claim(row["name"], row["title"], partial(_judge, row)) for row in table(__file__)]


def _judge(row: Mapping[str, str], runs: Runs) -> Verdict:
    names, figure = EXPERIMENT.studies[row["name"]], row["figure"]
    if not {*names} <= runs.keys():
        return not_run(f"There is no usable run of both: ./lab study {row['name']}")
    sides = [runs[one] for one in names]
    study = rounds.study_of(sides)
    used = [rounds.within(study, side) for side in sides]

    def value(one: MeasuredRuns) -> float:
        found = next(iter(one.cells.values())).figure(figure)
        return math.nan if found is None else found

    values = [(side, value) for side in used]
    lines = [
        Line(f"{side.run.scenario}, {plural(len(side.runs), 'run')}: {figure}", mean, unit="us")
        for side in used
        if (mean := over_runs([value(one) for one in side.runs])) is not None
    ]
    verdict = Verdict(reason=rounds.unfit(used, ("load",)), lines=lines)
    left_out = rounds.left_out_notes(study, *zip(sides, used, strict=True))
    verdict.notes = [rounds.planned(study, row["name"], sides), *left_out]
    if not verdict.reason:
        rounds.ask(verdict, values, directed(f"The {figure} of T", 1, None, claimed=False), study)
    if verdict.tested is not None:
        change = verdict.tested.change
        verdict.notes.insert(0, f"It changes by {show_signed_ms(change.estimate)} ms ({show_bounds(change)}).")
    return verdict
