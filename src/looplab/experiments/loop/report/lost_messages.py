"""The claims on lost messages, judged by runs: losses come in bursts of a run, so its messages count as one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scipy.stats import binomtest

from looplab.experiments.loop.fitted import ROBOT, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of, cells_text
from looplab.report.cell import Key
from looplab.report.rules import together
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import CONFIDENCE, SIGNIFICANCE, Interval, PValues
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Hypotheses,
    Outcome,
    Verdict,
)

# A run loses messages if it loses more than this share: no loss among a published cell's 1000 rules out 0.37 %.
NEGLIGIBLE = 0.005
# A system loses none if fewer of its runs do: 1 % lost in bursts of half a run is one run in fifty.
SELDOM = 0.02
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


@dataclass(frozen=True)
class LossClaim:
    """A claim about the cells at `key`, or any at QoS 1 or 2: all of its parts must be true, or any."""

    parts: Callable[[Sequence[MeasuredRuns]], Sequence[LossPart]]
    key: Key | None
    every_part: bool = True

    def keys(self, measured: MeasuredRuns) -> list[Key]:
        """Return the cells of a scenario that the claim is about."""
        return [one for one in cells_of(measured) if (one == self.key if self.key else one[1] > 0)]

    def answer(self, *used: MeasuredRuns) -> Verdict:
        parts = self.parts(used)
        counted = "; ".join(
            f"{m.run.scenario}: {', '.join(_counted(cells_of(m)[one]) for one in self.keys(m))}" for m in used
        )
        reason = f"{counted}. {'; '.join(map(str, parts))}."
        merged, without = (
            together([part.p_values(merged) for part in parts], every_part=self.every_part) for merged in (True, False)
        )
        by_robot = any(cell.merged for part in parts for own in part.runs for cell in own) and any(
            ROBOT in fitted(m.run.parameters) for m in used
        )
        question = Hypotheses(merged, partial(_decide, reason, without[0] if by_robot else 0.0))
        return Verdict(reason=reason, cells=cells_text(self.keys(used[0])), question=question)


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


CLAIMS = {
    "loss-10-ms": LossClaim(_at_10_ms, LOSING),
    "flood-qos-0": LossClaim(_flood_qos_0, FLOODED, every_part=False),
    "flood-qos-1-2": LossClaim(_flood_qos_1_2, None),
}
