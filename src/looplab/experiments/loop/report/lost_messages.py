"""The claims on lost messages: counts, run by run."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.special import betaincinv

from looplab.experiments.loop import STUDIES
from looplab.experiments.loop.fitted import ROBOT, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of, rounds
from looplab.experiments.loop.report.comparison import LOST, Comparing, cells_text, guarded
from looplab.report.cell import Key
from looplab.report.claims import outcome_of
from looplab.report.finding import within
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, Interval
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    FEW_RUNS,
    NO_RUN,
    NOT_REPRODUCED,
    ONE_RUN,
    REPRODUCED,
    UNDECIDED,
    Claim,
)

# "Answers all" is a rate below this one: no loss among the 1000 messages of a published cell rules out 0.37 %.
NEGLIGIBLE = 0.005
_LIMIT = f"Up to {NEGLIGIBLE:.1%} counts as none."
# How many messages of a cell were lost.
Count = Callable[[MeasuredLoop], int]
# Judges a claim by the runs of each scenario that may enter its verdict.
Answer = Callable[[Sequence[Measured]], Comparing]
LOSING: Key = (10.0, 0)
SOUND_MS = 20.0
FLOODED: Key = (20.0, 0)


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
        sides = [(m, used) for m in every if has_cells(used := rounds.within(None, m))]
        if not sides:
            return Comparing(NO_RUN, f"No run of {', '.join(STUDIES[name])} has {cells}.")
        measured = [used for _, used in sides]
        verdict = answer(measured)
        verdict.notes += rounds.left_out_notes(None, *sides)
        return guarded(by_runs(verdict, measured), measured)

    return Claim(name, title, judge)


def rate(counts: Sequence[tuple[int, int]]) -> Interval:
    """Return the share lost with its exact 95 % interval (Clopper and Pearson), from (lost, sent) of each run.

    Losses come in bursts: where runs differ by more than chance, they count as so many fewer messages (Korn and
    Graubard 1998). No message sent is any rate.
    """
    lost, sent = (np.array(each, dtype=np.float64) for each in zip(*counts, strict=True))
    if not (total := sent.sum()):
        return Interval(math.nan, 0.0, 1.0)
    share, effect = lost.sum() / total, 1.0
    if 0 < share < 1 and len(counts) > 1:
        apart = float(((lost - share * sent) ** 2).sum()) * len(counts) / (len(counts) - 1)
        effect = max(1.0, apart / (total * share * (1 - share)))
    n, k = total / effect, lost.sum() / effect
    low = float(betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return Interval(share, low, high)


def _loses(cells: Sequence[MeasuredLoop], lost: Count) -> bool | None:
    """Return whether cells of several runs lose more than NEGLIGIBLE; None where the interval holds both."""
    return within(rate([(lost(cell), cell.sent) for cell in cells]), NEGLIGIBLE, 1.0)


def _decided(judge: Callable[[Count], str], cells: Iterable[MeasuredLoop], robot_fitted: bool) -> str:
    """Return the outcome of a claim on losses: BY_CONSTRUCTION if only merged answers, which were fitted, decide it."""
    outcome = judge(lambda cell: cell.lost)
    if outcome != REPRODUCED or not robot_fitted or not any(cell.merged for cell in cells):
        return outcome
    return REPRODUCED if judge(lambda cell: cell.lost - cell.merged) == REPRODUCED else BY_CONSTRUCTION


def _at_10_ms(measured: Sequence[Measured]) -> Comparing:
    """Judge whether runs lose at 10 ms and not at 20 ms and above: the second part is as much of the claim."""
    each = [cells_of(one) for m in measured for one in m.runs if LOSING in cells_of(one)]
    here = [cells[LOSING] for cells in each]
    above = [cell for cells in each for (ms, qos), cell in cells.items() if ms >= SOUND_MS and qos == 0]
    if not above:
        why = " Whether 20 ms and above lose nothing was not measured."
        return _verdict(measured, LOSING, UNDECIDED, why, _merged(measured))

    def judge(lost: Count) -> str:
        at_10, longer = _loses(here, lost), _loses(above, lambda cell: cell.lost)
        return outcome_of([at_10, None if longer is None else not longer])

    outcome = _decided(judge, here, _robot_fitted(measured))
    why = f" At 10 ms {_share(here)} are lost, at 20 ms and above {_share(above)}. {_LIMIT}"
    return _verdict(measured, LOSING, outcome, why, _merged(measured))


def _flood_qos_0(measured: Sequence[Measured]) -> Comparing:
    """Judge whether in one scenario at least runs lose messages, or every run lost the connection."""
    each = [[cell for one in m.runs if (cell := cells_of(one).get(FLOODED))] for m in measured]

    def judge(lost: Count) -> str:
        broken = [all(cell.disconnects for cell in cells) for cells in each]
        loses = [True if cut else _loses(cells, lost) for cells, cut in zip(each, broken, strict=True)]
        if any(loses):
            return REPRODUCED
        open_ones = None in loses or any(cell.disconnects for cells in each for cell in cells)
        return UNDECIDED if open_ones else NOT_REPRODUCED

    every = [cell for cells in each for cell in cells]
    outcome = _decided(judge, every, _robot_fitted(measured))
    return _verdict(measured, FLOODED, outcome, f" Lost are {_share(every)}. {_LIMIT}")


def _flood_qos_1_2(measured: Sequence[Measured]) -> Comparing:
    [m] = measured
    cells = {key: cell for key, cell in cells_of(m).items() if key[1] > 0}
    every = [cell for one in m.runs for key, cell in cells_of(one).items() if key[1] > 0]
    merged = sum(cell.merged for cell in every)
    loses = _loses(every, lambda cell: cell.lost - cell.merged)
    outcome = outcome_of([None if loses is None else not loses])
    why = f" {_LIMIT}"
    if merged:
        why += f" {merged} that the robot's framing merged are not counted: they were lost behind MQTT."
    text = ", ".join(f"QoS {cell.qos}: {_counted(cell)}" for cell in cells.values()) + "."
    behind = "QoS ends at the bridge: what is lost behind it, no QoS brings back."
    notes = [behind, *_merged(measured)] if any(cell.lost for cell in every) else []
    return Comparing(outcome, text + why, notes=notes, cells=cells_text(list(cells)), judged=LOST)


def _robot_fitted(measured: Sequence[Measured]) -> bool:
    return any(ROBOT in fitted(m.run.parameters) for m in measured)


def _share(cells: Sequence[MeasuredLoop]) -> str:
    """Return the share that cells lose, with its interval: "7.40 % (6.13 … 8.84)"."""
    share = rate([(cell.lost, cell.sent) for cell in cells])
    return f"{share.estimate:.2%} ({100 * share.low:.2f} … {100 * share.high:.2f})"


def _verdict(measured: Sequence[Measured], key: Key, outcome: str, why: str, notes: Sequence[str] = ()) -> Comparing:
    text = "; ".join(f"{m.run.scenario}: {_counted(cells_of(m)[key])}" for m in measured) + "."
    return Comparing(outcome, text + why, notes=[*notes], cells=cells_text([key]), judged=LOST)


def by_runs(verdict: Comparing, measured: Sequence[Measured]) -> Comparing:
    """Give no verdict where no scenario has enough runs: what a single run loses may be that run's."""
    most = max(len(m.runs) for m in measured)
    if most < FEWEST_RUNS:
        verdict.outcome = ONE_RUN if most == 1 else FEW_RUNS
        verdict.reason += f" For a verdict, {FEWEST_RUNS} runs are the fewest."
    return verdict


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
