"""The claims on lost messages, judged by runs: losses come in bursts of a run, so its messages count as one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scipy.stats import binomtest

from looplab.experiments.loop.fitted import ROBOT, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.report.comparison import LoopVerdict, cells_text, guarded
from looplab.report import rounds
from looplab.report.cell import Key
from looplab.report.rules import together
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import CONFIDENCE, SIGNIFICANCE, Interval, PValues
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    Hypotheses,
    Outcome,
)

# A run loses messages if it loses more than this share: no loss among a published cell's 1000 rules out 0.37 %.
NEGLIGIBLE = 0.005
# A system loses none if fewer of its runs do: 1 % lost in bursts of half a run is one run in fifty.
SELDOM = 0.02
LOST = "lost messages"
# How many messages of a cell were lost.
Count = Callable[[MeasuredLoop], int]
LOSING: Key = (10.0, 0)
SOUND_MS = 20.0
FLOODED: Key = (20.0, 0)


@dataclass(frozen=True)
class LossPart:
    """A part of a claim: of so many runs, whose cells it is about, messages are lost by `lost`, or none are."""

    words: str
    runs: Sequence[Sequence[MeasuredLoop]]
    lost: Count
    loses: bool = True

    def p_values(self, merged: bool = True) -> PValues:
        """Return the p-values of the part being false and true; without `merged` those answers are not lost."""
        if not self.runs:
            # What was not measured can be neither shown nor refuted.
            return 1.0, 1.0
        lost: Count = lambda cell: self.lost(cell) - (0 if merged else cell.merged)  # noqa: E731
        none, some = loses(losing_runs(self.runs, lost if self.loses else self.lost), len(self.runs))
        return (none, some) if self.loses else (some, none)

    def __str__(self) -> str:
        if not self.runs:
            return f"{self.words} nothing was measured"
        losing, runs = losing_runs(self.runs, self.lost), len(self.runs)
        share = exact_share(losing, runs)
        may = f"{share.low:.0%} to {share.high:.0%}" if losing else f"up to {share.high:.0%}"
        return f"{self.words} {losing} of {runs} runs lost more than {NEGLIGIBLE:.1%}, {may} may"


def judge(name: str, scenarios: Sequence[str], runs: Runs) -> LoopVerdict:
    """Judge a claim about the scenarios that have a cell: at `key`, or any at QoS 1 or 2.

    All parts of it must be true, or any.
    """
    parts_of, key, every_part = {
        "loss-10-ms": (_at_10_ms, LOSING, True),
        "flood-qos-0": (_flood_qos_0, FLOODED, False),
        "flood-qos-1-2": (_flood_qos_1_2, None, True),
    }[name]
    of_study = [runs[scenario] for scenario in scenarios if scenario in runs]
    study = rounds.study_of(of_study) if of_study else None
    sides = [(m, kept) for m in of_study if _keys(kept := rounds.within(study, m), key)]
    if not sides:
        cells = f"a cell at {key[0]:g} ms and QoS {key[1]}" if key else "cells of QoS 1 or 2"
        return LoopVerdict(reason=f"No run of {', '.join(scenarios)} has {cells}.", because=NOT_RUN)
    used = [one for _, one in sides]
    parts = parts_of(used)
    keys = _keys(used[0], key)
    counted = "; ".join(
        f"{m.run.scenario}: {', '.join(_counted(cells_of(m)[one]) for one in _keys(m, key))}" for m in used
    )
    verdict = LoopVerdict(
        reason=f"{counted}. {'; '.join(map(str, parts))}.",
        cells=cells_text(keys),
        judged=LOST,
    )
    if not rounds.withheld(verdict, max(len(m.runs) for m in used), study):
        by_robot = any(cell.merged for part in parts for own in part.runs for cell in own) and any(
            ROBOT in fitted(m.run.parameters) for m in used
        )
        merged, without = (
            together([part.p_values(merged) for part in parts], every_part=every_part) for merged in (True, False)
        )
        sound = without[0] if by_robot else 0.0
        verdict.question = Hypotheses(merged, partial(_decide, verdict.reason, sound))
    return guarded(verdict, name, study, sides)


def _keys(measured: MeasuredRuns, key: Key | None) -> list[Key]:
    """Return the cells of a scenario that a claim is about."""
    return [one for one in cells_of(measured) if (one == key if key else one[1] > 0)]


def _decide(reason: str, sound: float, false: float, true: float, questions: int) -> Outcome:
    """Decide by the p-values of the claim being false and being true.

    `sound` is the first without the answers that a fitted robot merged: what these alone decide is by construction.
    """
    if false < SIGNIFICANCE:
        return REPRODUCED if questions * sound < SIGNIFICANCE else BY_CONSTRUCTION, reason
    if true < SIGNIFICANCE:
        return NOT_REPRODUCED, reason
    runs = math.ceil(math.log(SIGNIFICANCE / 2 / questions) / math.log(1 - SELDOM))
    together = f" ({questions} questions asked together)" if questions > 1 else ""
    needed = f" To rule out that {SELDOM:.0%} of runs do takes {runs} runs of which none does{together}."
    return UNDECIDED, f"{reason}{needed}"


def losing_runs(runs: Sequence[Sequence[MeasuredLoop]], lost: Count) -> int:
    """Return how many runs lose more than NEGLIGIBLE of the messages of their cells."""
    return sum(sum(map(lost, own)) > NEGLIGIBLE * sum(cell.sent for cell in own) for own in runs)


def loses(losing: int, runs: int) -> PValues:
    """Return the p-values of a system that does not lose messages, and of one that does; two-sided, as its interval."""
    greater, less = (binomtest(losing, runs, SELDOM, other).pvalue for other in ("greater", "less"))
    return min(1.0, 2 * float(greater)), min(1.0, 2 * float(less))


def exact_share(count: int, of: int) -> Interval:
    """Return a share of independent units with its exact 95 % interval (Clopper and Pearson)."""
    ends = binomtest(count, of).proportion_ci(CONFIDENCE, "exact")
    return Interval(count / of, float(ends.low), float(ends.high))


def _at_10_ms(measured: Sequence[MeasuredRuns]) -> Sequence[LossPart]:
    """Runs lose at 10 ms and not at 20 ms and above: the second part is as much of the claim."""
    runs = [cells_of(one) for m in measured for one in m.runs if LOSING in cells_of(one)]
    above = [[cell for (ms, qos), cell in cells.items() if ms >= SOUND_MS and qos == 0] for cells in runs]
    return (
        LossPart("At 10 ms", [[cells[LOSING]] for cells in runs], lambda cell: cell.lost),
        LossPart("at 20 ms and above", [cells for cells in above if cells], lambda cell: cell.lost, loses=False),
    )


def _flood_qos_0(measured: Sequence[MeasuredRuns]) -> Sequence[LossPart]:
    """In one scenario at least, runs lose messages or the connection."""
    each = {m.run.scenario: [[cell] for one in m.runs if (cell := cells_of(one).get(FLOODED))] for m in measured}
    return [
        LossPart(f"Of {name}", cells, lambda cell: cell.sent if cell.disconnects else cell.lost)
        for name, cells in each.items()
    ]


def _flood_qos_1_2(measured: Sequence[MeasuredRuns]) -> Sequence[LossPart]:
    """No run loses messages; those that the robot's framing merged were lost behind MQTT."""
    runs = ([cell for (_, qos), cell in cells_of(one).items() if qos > 0] for m in measured for one in m.runs)
    behind = "Without answers that the robot's framing merged"
    return [LossPart(behind, [own for own in runs if own], lambda cell: cell.lost - cell.merged, loses=False)]


def _counted(cell: MeasuredLoop) -> str:
    """Return what a cell lost, in words; of several runs also how much identical ones differ."""
    lost = [one.lost for one in cell.runs]
    runs = f" in {len(lost)} runs, {min(lost)} to {max(lost)} in each" if lost else ""
    broken = f", connection lost {cell.disconnects} times" if cell.disconnects else ""
    because = f" ({cell.causes})" if cell.causes else ""
    return f"QoS {cell.qos}: {cell.lost} of {cell.sent} lost{because}{broken}{runs}"
