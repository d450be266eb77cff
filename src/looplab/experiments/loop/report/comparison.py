"""Two sides compared, of two scenarios or of QoS 1 and 2 of one: figures, the machine's own difference, the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from looplab.experiments.loop.fitted import FITTED_CONSTANTS, Fitted, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.report import rounds
from looplab.report.cell import QUANTILES, Key, quantile
from looplab.report.page import show_ms, show_percent, show_signed_ms
from looplab.report.rules import Rule
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import FEWEST_RUNS, Comparison, Interval, compare, compare_blocks
from looplab.report.study_file import Study
from looplab.report.verdicts import Verdict

# Figures of O, as the thesis has them, and of the response, where a lost message counts.
FIGURES = ("O mean", "O p50", "O p95", "response p50", "response p95")

# One side of a comparison: the runs, and which of their cells count.
Side = tuple[MeasuredRuns, Sequence[Key]]
# All runs of a scenario, and those on which a verdict rests.
Used = tuple[MeasuredRuns, MeasuredRuns]


@dataclass(frozen=True)
class Printed:
    """A figure of both sides in us as published, None where it is not."""

    before: float | None = None
    after: float | None = None
    figure: str = "O mean"

    @property
    def share(self) -> float | None:
        return self.after / self.before - 1 if self.before and self.after else None

    @property
    def change(self) -> float | None:
        return self.after - self.before if self.before and self.after else None


@dataclass
class LoopVerdict(Verdict):
    """A verdict on two sides, as changes by figure ("O mean", "response p95"), or on counts (no `effects`).

    `judged` decides: such a figure, or what counts are about.
    """

    effects: dict[str, Comparison] = field(default_factory=dict)
    sides: tuple[str, str] = ("before", "after")
    cells: str = ""
    published: Printed = Printed()
    run_ids: list[str] = field(default_factory=list)
    judged: str = "O mean"
    plan: str = ""
    null: str = ""

    @property
    def glance(self) -> str:
        if self.judged not in self.effects:
            return ""
        effect, printed = self.effects[self.judged], self.published
        here = _scaled(effect.share.estimate, effect.change.estimate, effect.before)
        return f"{here}; published {_scaled(printed.share, printed.change, printed.before)}"


def _scaled(share: float | None, change_us: float | None, before_us: float | None) -> str:
    """Return a change in both measures: "+57 %, +5.00 ms on 8.74"; a dash where it is unknown."""
    if share is None or change_us is None:
        return "–"
    return f"{show_percent(share)}, {show_signed_ms(change_us)} ms on {show_ms(before_us)}"


def compare_sides(verdict: LoopVerdict, sides: tuple[Side, Side], rule: Rule, study: Study | None) -> None:
    """Compare runs where each side has enough, else show how far the newest ones differ; ask `rule`.

    Runs of a study are compared round by round, two cells of the same runs run by run.
    """
    judged = verdict.judged
    enough = min(len(measured.runs) for measured, _ in sides) >= FEWEST_RUNS
    blocked = enough and len(rounds.blocks(by_run(sides, judged), study)) >= FEWEST_RUNS
    for figure in dict.fromkeys((judged, *FIGURES)):
        both = by_run(sides, figure)
        before, after = ([value(one) for one in measured.runs] for measured, value in both)
        if blocked:
            found = compare_blocks(rounds.blocks(both, study))
        else:
            found = compare(before, after) if enough else _difference(before[-1], after[-1])
        if found is not None:
            verdict.effects[figure] = found
        elif figure == judged:
            verdict.reason = _no_figure(judged, [*before, *after])
    if judged in verdict.effects:
        verdict.share = verdict.effects[judged].share
    if enough:
        verdict.null = rounds.null_text(rounds.nulls(by_run(sides, judged), study))
    elif verdict.share:
        share = show_percent(verdict.share.estimate)
        verdict.reason = f"Both sides differ by {share} in {judged}. How much runs differ without a cause is unknown."
    rounds.ask(verdict, by_run(sides, judged), rule, study)


def _difference(before: float, after: float) -> Comparison | None:
    """Return how far two runs differ: without an interval, for their repetitions do not show how runs vary."""
    if not (0 < before < math.inf and 0 < after < math.inf):
        return None
    share, change = Interval(after / before - 1), Interval(after - before)
    return Comparison(before, after, share, change, math.nan, math.nan, (1, 1))


def by_run(sides: Sequence[Side], figure: str) -> list[tuple[MeasuredRuns, rounds.Value]]:
    """Return each side with what takes a figure from one of its runs."""

    def value(keys: Sequence[Key]) -> rounds.Value:
        return lambda one: _mean(one, keys, figure)

    return [(measured, value(keys)) for measured, keys in sides]


def _mean(run: MeasuredRuns, keys: Sequence[Key], figure: str) -> float:
    """Return a figure of a run, a latency in us, the mean over the cells; NaN where a cell of the run has none.

    "pace" is the time from one message's leaving to the next one's: the interval and the mean lateness.
    """
    metric, statistic = figure.replace("mean", "avg").split()
    return float(np.mean([_value(cells_of(run).get(key), metric, statistic) for key in keys]))


def _value(cell: MeasuredLoop | None, metric: str, statistic: str) -> float:
    if cell is None:
        return math.nan
    if metric == "pace":
        late_us = cell.figure("send_lateness.avg")
        return math.nan if late_us is None else 1000 * cell.interval_ms + late_us
    if metric == "response-R":
        return quantile(cell.response_without_R_us, QUANTILES[statistic])
    if metric == "response":
        return quantile(cell.response_us, QUANTILES[statistic])
    value = cell.figure(f"{metric}.{statistic}")
    return math.nan if value is None else value


def _no_figure(judged: str, values: Sequence[float]) -> str:
    """Return why runs have no figure to compare."""
    if infinite := int(np.isinf(values).sum()):
        often = f"{infinite} of {len(values)} runs"
        return f"The {judged} is infinite in {often}: more messages are lost than it can leave out."
    return f"In one run at least, nothing was answered in a cell: it has no {judged}."


def guarded(
    verdict: LoopVerdict, claim: str, study: Study | None, sides: Sequence[Used], about: Sequence[str] | None = None
) -> LoopVerdict:
    """Leave undecided what runs cannot judge that are INVALID or differ in more than the claim is `about`.

    Beside the verdict go its plan, the runs that are left out, and the fitted constants on which its figure depends.
    """
    used = [one for _, one in sides]
    verdict.run_ids = [run_id for m in used for run_id in m.run_ids]
    if verdict.run:
        verdict.plan = rounds.planned(study, claim, used)
        verdict.notes += rounds.left_out_notes(study, *sides)
        verdict.notes += [f"Fitted: {one}" for one in constants_of(verdict.judged, used)]
        if why := rounds.unfit(used, about):
            verdict.withdraw(why)
    return verdict


def constants_of(figure: str, used: Sequence[MeasuredRuns]) -> list[Fitted]:
    """Return the fitted constants on which a figure ("O mean") of any of these runs depends."""
    found = {one for m in used for one in fitted(m.run.parameters) if figure.split()[0] in one.figures}
    return [one for one in FITTED_CONSTANTS if one in found]


def cells_text(keys: Sequence[Key]) -> str:
    """Return cells in words: "100, 20 ms, QoS 0"."""
    qos = sorted({f"{q:g}" for _, q in keys})
    intervals = sorted({i for i, _ in keys}, reverse=True)
    return f"{', '.join(f'{i:g}' for i in intervals)} ms, QoS {', '.join(qos)}" if keys else "none"
