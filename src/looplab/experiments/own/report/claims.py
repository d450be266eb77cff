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
from looplab.report.verdicts import Claim, Verdict, not_run


def claims() -> list[Claim]:
    """Return the claim on each load."""
    return [Claim(row["name"], row["title"], partial(_judge, row)) for row in table(__file__)]


def _judge(row: Mapping[str, str], runs: Runs) -> Verdict:
    names, figure = EXPERIMENT.studies[row["name"]], row["figure"]
    if not {*names} <= runs.keys():
        return not_run(f"There is no usable run of both: ./lab study {row['name']}")

    def value(one: MeasuredRuns) -> float:
        found = next(iter(one.cells.values())).figure(figure)
        return math.nan if found is None else found

    sides = [(runs[one], value, f"{one}: {figure}") for one in names]
    rule = directed(f"The {figure} of T", 1, None, claimed=False)
    verdict = rounds.compared(row["name"], sides, rule, "us", ("load",))
    if verdict.tested is not None:
        change = verdict.tested.change
        verdict.notes.insert(0, f"It changes by {show_signed_ms(change.estimate)} ms ({show_bounds(change)}).")
    return verdict
