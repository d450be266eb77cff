"""The claims on lost messages, judged by runs: losses come in bursts of a run, so its messages count as one."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from looplab.experiments.loop import STUDIES
from looplab.experiments.loop.fitted import ROBOT, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of, rounds
from looplab.experiments.loop.report.comparison import LOST, Comparing, cells_text, guarded, planned, withheld
from looplab.report.cell import Key
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import CONFIDENCE, SIGNIFICANCE, Interval
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    NO_RUN,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Adjusted,
    Claim,
    Question,
)

# A run loses messages if it loses more than this share: no loss among a published cell's 1000 rules out 0.37 %.
NEGLIGIBLE = 0.005
# A system loses none if fewer of its runs do: 1 % lost in bursts of half a run is one run in fifty.
SELDOM = 0.02
# How many messages of a cell were lost.
Count = Callable[[MeasuredLoop], int]
# One side of a claim: the cells of each run that it is about.
Cells = Sequence[Sequence[MeasuredLoop]]
# What was not measured can be neither shown nor refuted.
NOT_MEASURED = Adjusted(1.0, 1.0)
LOSING: Key = (10.0, 0)
SOUND_MS = 20.0
FLOODED: Key = (20.0, 0)


@dataclass
class Losing(Comparing):
    """A verdict on how many runs lose messages, by its p-values: of the claim being false, and of its being true.

    `sound` is the first without the answers that a fitted robot merged: what these alone decide is by construction.
    """

    p_values: Adjusted | None = None
    sound: float = 0.0

    @property
    def question(self) -> Question | None:
        return Question(self.p_values) if self.p_values else None

    def withdraw(self, outcome: str, reason: str) -> None:
        super().withdraw(outcome, reason)
        self.p_values = None

    def settle(self, p_values: Adjusted, questions: int) -> None:
        if p_values.difference < SIGNIFICANCE:
            self.outcome = REPRODUCED if questions * self.sound < SIGNIFICANCE else BY_CONSTRUCTION
        elif p_values.equivalence < SIGNIFICANCE:
            self.outcome = NOT_REPRODUCED
        else:
            runs = math.ceil(math.log(SIGNIFICANCE / 2 / questions) / math.log(1 - SELDOM))
            together = f" ({questions} questions asked together)" if questions > 1 else ""
            self.reason += f" To rule out that {SELDOM:.0%} of runs do takes {runs} runs of which none does{together}."


# Judges a claim by the runs of each scenario that may enter its verdict.
Answer = Callable[[Sequence[Measured]], Losing]


def claims() -> list[Claim]:
    """Return the thesis's claims on losses, in the order of its chapters."""
    at_10_ms = "At 10 ms the robot answers fewer requests than it gets; from 20 ms on it answers all"
    qos_0 = "Under the MQTT flood, QoS 0 loses messages or the connection"
    return [
        _claim("loss-10-ms", at_10_ms, _at_10_ms, LOSING),
        _claim("flood-qos-0", qos_0, _flood_qos_0, FLOODED),
        _claim("flood-qos-1-2", "Under the MQTT flood, QoS 1 and 2 lose nothing", _flood_qos_1_2),
    ]


def _claim(name: str, title: str, answer: Answer, key: Key | None = None) -> Claim:
    """Return a claim about the scenarios of its study that have a cell `key`; None is any at QoS 1 or 2."""
    cells = f"a cell at {key[0]:g} ms and QoS {key[1]}" if key else "cells of QoS 1 or 2"

    def has_cells(m: Measured) -> bool:
        return key in cells_of(m) if key else any(qos for _, qos in cells_of(m))

    def judge(runs: Runs) -> Comparing:
        every = [runs[scenario] for scenario in STUDIES[name] if scenario in runs]
        study = rounds.study_of(every) if every else None
        sides = [(m, used) for m in every if has_cells(used := rounds.within(study, m))]
        if not sides:
            return Comparing(NO_RUN, f"No run of {', '.join(STUDIES[name])} has {cells}.")
        measured = [used for _, used in sides]
        verdict = answer(measured)
        verdict.plan = planned(study)
        verdict.notes += rounds.left_out_notes(study, *sides)
        withheld(verdict, measured, study)
        return guarded(verdict, measured)

    return Claim(name, title, judge)


def losing_runs(cells: Cells, lost: Count) -> int:
    """Return how many runs lose more than NEGLIGIBLE of the messages of their cells."""
    return sum(sum(map(lost, own)) > NEGLIGIBLE * sum(cell.sent for cell in own) for own in cells)


def loses(losing: int, runs: int) -> Adjusted:
    """Return the p-values of a system that does not lose messages, and of one that does; two-sided, as its interval."""
    tests = (binomtest(losing, runs, SELDOM, other) for other in ("greater", "less"))
    return Adjusted(*(min(1.0, 2 * float(test.pvalue)) for test in tests))


def exact_share(count: int, of: int) -> Interval:
    """Return a share of independent units with its exact 95 % interval (Clopper and Pearson)."""
    ends = binomtest(count, of).proportion_ci(CONFIDENCE, "exact")
    return Interval(count / of, float(ends.low), float(ends.high))


def _not(p: Adjusted) -> Adjusted:
    return Adjusted(p.equivalence, p.difference)


def _all(*parts: Adjusted) -> Adjusted:
    """Return the p-values of all parts being true: each must be shown, but any false one refutes them (Bonferroni)."""
    return Adjusted(max(p.difference for p in parts), min(1.0, len(parts) * min(p.equivalence for p in parts)))


def _judged(
    measured: Sequence[Measured], judge: Callable[[Count], Adjusted], reason: str, keys: Sequence[Key]
) -> Losing:
    """Return the verdict that the p-values of `judge` give, from the runs' losses."""
    verdict = Losing(UNDECIDED, reason, cells=cells_text(keys), judged=LOST)
    verdict.p_values = judge(lambda cell: cell.lost)
    merged = any(cell.merged for m in measured for one in m.runs for cell in cells_of(one).values())
    if merged and any(ROBOT in fitted(m.run.parameters) for m in measured):
        verdict.sound = judge(lambda cell: cell.lost - cell.merged).difference
    return verdict


def _at_10_ms(measured: Sequence[Measured]) -> Losing:
    """Judge whether runs lose at 10 ms and not at 20 ms and above: the second part is as much of the claim."""
    runs = [cells_of(one) for m in measured for one in m.runs if LOSING in cells_of(one)]
    here = [[cells[LOSING]] for cells in runs]
    above = [[cell for (ms, qos), cell in cells.items() if ms >= SOUND_MS and qos == 0] for cells in runs]
    above = [cells for cells in above if cells]

    def judge(lost: Count) -> Adjusted:
        lossy = loses(losing_runs(above, lambda cell: cell.lost), len(above)) if above else NOT_MEASURED
        return _all(loses(losing_runs(here, lost), len(here)), _not(lossy))

    longer = f"at 20 ms and above {_in_words(above)}" if above else "at 20 ms and above nothing was measured"
    why = f"{_sides(measured, LOSING)} At 10 ms {_in_words(here)}; {longer}."
    verdict = _judged(measured, judge, why, [LOSING])
    verdict.notes += _merged(measured)
    return verdict


def _flood_qos_0(measured: Sequence[Measured]) -> Losing:
    """Judge whether in one scenario at least runs lose messages or the connection."""
    each = [[[cell] for one in m.runs if (cell := cells_of(one).get(FLOODED))] for m in measured]

    def judge(lost: Count) -> Adjusted:
        broken: Count = lambda cell: cell.sent if cell.disconnects else lost(cell)  # noqa: E731
        return _not(_all(*(_not(loses(losing_runs(cells, broken), len(cells))) for cells in each)))

    words = "; ".join(f"of {m.run.scenario} {_in_words(cells)}" for m, cells in zip(measured, each, strict=True))
    return _judged(measured, judge, f"{_sides(measured, FLOODED)} {words[0].upper()}{words[1:]}.", [FLOODED])


def _flood_qos_1_2(measured: Sequence[Measured]) -> Losing:
    [m] = measured
    cells = {key: cell for key, cell in cells_of(m).items() if key[1] > 0}
    each = [own for one in m.runs if (own := [cell for (_, qos), cell in cells_of(one).items() if qos > 0])]
    behind: Count = lambda cell: cell.lost - cell.merged  # noqa: E731
    text = ", ".join(f"QoS {cell.qos}: {_counted(cell)}" for cell in cells.values())
    why = f"{text}. {_in_words(each, behind)}."
    if merged := sum(cell.merged for own in each for cell in own):
        why += f" {merged} that the robot's framing merged are not counted: they were lost behind MQTT."
    verdict = _judged(measured, lambda _lost: _not(loses(losing_runs(each, behind), len(each))), why, list(cells))
    if any(cell.lost for own in each for cell in own):
        verdict.notes = ["QoS ends at the bridge: what is lost behind it, no QoS brings back.", *_merged(measured)]
    return verdict


def _in_words(cells: Cells, lost: Count = lambda cell: cell.lost) -> str:
    """Return how many runs lose messages, and how many may: "0 of 9 runs lost more than 0.5%, up to 34% may"."""
    losing, runs = losing_runs(cells, lost), len(cells)
    share = exact_share(losing, runs)
    may = f"{share.low:.0%} to {share.high:.0%}" if losing else f"up to {share.high:.0%}"
    return f"{losing} of {runs} runs lost more than {NEGLIGIBLE:.1%}, {may} may"


def _sides(measured: Iterable[Measured], key: Key) -> str:
    """Return what each scenario lost in a cell, in words."""
    return "; ".join(f"{m.run.scenario}: {_counted(cells_of(m)[key])}" for m in measured) + "."


def _counted(cell: MeasuredLoop) -> str:
    """Return what a cell lost, in words; of several runs also how much identical ones differ."""
    lost = [one.lost for one in cell.runs]
    runs = f" in {len(lost)} runs, {min(lost)} to {max(lost)} in each" if lost else ""
    broken = f", connection lost {cell.disconnects} times" if cell.disconnects else ""
    because = f" ({cell.causes})" if cell.causes else ""
    return f"{cell.lost} of {cell.sent} lost{because}{broken}{runs}"


def _merged(measured: Sequence[Measured]) -> list[str]:
    """Return what framing did; the bridge counts since its start, which may be several runs ago."""
    notes = []
    for m in measured:
        counts = (m.run.document.get("bridge") or {}).get("counts")
        if isinstance(counts, dict) and isinstance(merged := counts.get("merged"), int):
            notes.append(
                f"{m.run.scenario}: framing {m.run.parameters.get('robot_framing')}; since its start, the bridge "
                f"merged {merged} requests into another's answer."
            )
    return notes
