"""The claims that compare two sides: two scenarios, or QoS 1 and 2 of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from looplab.experiments.loop.report import MeasuredLoop, cells_of, published
from looplab.experiments.loop.report.null import null_text
from looplab.experiments.loop.studies import COMPARED
from looplab.report.cell import Key
from looplab.report.page import show_percent
from looplab.report.rules import directed, no_gain
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_REPETITIONS, FEWEST_RUNS, Comparison, compare
from looplab.report.stored import StoredRun, differences
from looplab.report.verdicts import (
    FEW_RUNS,
    NO_CONTRAST,
    NO_RUN,
    ONE_RUN,
    UNDECIDED,
    Claim,
    Rule,
    Verdict,
)

# Figures of O, as the thesis has them, and of the response, where a lost message counts.
FIGURES = (("O", "mean"), ("O", "p50"), ("O", "p95"), ("response", "p50"), ("response", "p95"))
_STATISTIC = {"mean": "avg"}
# What a claim is about is what may differ between its sides: the parameters whose names begin so.
ABOUT = {
    "no-arduino-slower": ("command",),
    "no-arduino-slower-stress": ("command",),
    "stress": ("load", "stress"),
    "stress-no-arduino": ("load", "stress"),
    "broker-priority": ("priority_broker",),
    "broker-priority-no-arduino": ("priority_broker",),
    "client-priority": ("priority_controller",),
}
# Whose scheduling a claim on priority is about.
_PRIORITISED = {"priority_broker": "broker", "priority_controller": "controller"}


@dataclass
class Comparing(Verdict):
    """A verdict on two sides, as changes by figure ("O mean", "response p95"), or on counts (no `effects`).

    `units` says what was compared: runs, or the repetitions of one run; `judged` which figure decides.
    """

    effects: dict[str, Comparison] = field(default_factory=dict)
    sides: tuple[str, str] = ("before", "after")
    cells: str = ""
    published_share: float | None = None
    run_ids: list[str] = field(default_factory=list)
    units: str = "run"
    judged: str = "O mean"
    null: str = ""

    @property
    def glance(self) -> str:
        if self.judged not in self.effects:
            return ""
        return (
            f"{show_percent(self.effects[self.judged].share.estimate)} (published {show_percent(self.published_share)})"
        )


# The rule of a claim, made from the share that was published.
MakeRule = Callable[[float | None], Rule]


def claims() -> list[Claim]:
    """Return the thesis's claims that compare two scenarios, in the order of its chapters."""
    return [
        _between("no-arduino-slower", "Without the Arduino, O is higher than with it", _higher),
        _between("no-arduino-slower-stress", "The same under CPU stress", _higher),
        _between("stress", "CPU stress raises O", _higher),
        _between("stress-no-arduino", "CPU stress raises O, without Arduino", _higher),
        _between("broker-priority", "Broker priority lowers O under stress", _lower),
        _between("broker-priority-no-arduino", "The same without Arduino", _lower),
        _between(
            "client-priority",
            "Prioritising the client as well adds nothing",
            lambda _share: no_gain("The response's p95"),
            judged="response p95",
        ),
    ]


def qos_2() -> Claim:
    """Return the claim that compares QoS 1 and QoS 2 of scenario 8."""
    return Claim("qos-2", "QoS 2 takes longer than QoS 1", _qos_2)


def _higher(share: float | None) -> Rule:
    return directed("O", +1, share)


def _lower(share: float | None) -> Rule:
    return directed("O", -1, share)


def _between(name: str, title: str, rule: MakeRule, judged: str = "O mean") -> Claim:
    """Return a claim that compares two scenarios."""
    before, after = COMPARED[name]

    def judge(runs: Runs) -> Comparing:
        missing = [scenario for scenario in (before, after) if scenario not in runs]
        if missing:
            return no_run(missing)
        a, b = runs[before], runs[after]
        keys = _common_keys(a, b)
        intervals = tuple(interval for interval, _ in keys)
        share = _share(published.mean_us(before, intervals, 0), published.mean_us(after, intervals, 0))
        verdict = Comparing(
            UNDECIDED,
            "The runs have no cell (interval and QoS) in common.",
            sides=(before, after),
            cells=said(keys),
            published_share=share,
            judged=judged,
        )
        if not keys:
            return guarded(verdict, [a, b])
        _compare(verdict, (a, keys), (b, keys), rule(share))
        if not _applied(ABOUT[name], a.run, b.run):
            return guarded(_no_contrast(verdict), [a, b], ABOUT[name])
        return guarded(verdict, [a, b], ABOUT[name])

    return Claim(name, title, judge)


def _qos_2(runs: Runs) -> Comparing:
    if "scenario8" not in runs:
        return no_run(["scenario8"])
    a = runs["scenario8"]
    intervals = sorted(
        {interval for interval, _ in cells_of(a) if (interval, 1) in cells_of(a) and (interval, 2) in cells_of(a)}
    )
    if not intervals:
        return Comparing(NO_RUN, "The run of scenario8 has no cells of both QoS 1 and QoS 2.", run_ids=a.run_ids)
    share = _share(*(published.mean_us("scenario8", intervals, qos) for qos in (1, 2)))
    verdict = Comparing(UNDECIDED, "", sides=("QoS 1", "QoS 2"), published_share=share)
    verdict.cells = said([(i, 2) for i in intervals]).replace("QoS 2", "QoS 1 and 2")
    _compare(verdict, (a, [(i, 1) for i in intervals]), (a, [(i, 2) for i in intervals]), _higher(share))
    return guarded(verdict, [a])


def _share(first: float | None, second: float | None) -> float | None:
    return second / first - 1 if first and second else None


def no_run(missing: Sequence[str]) -> Comparing:
    return Comparing(NO_RUN, f"There is no usable run: ./lab run {' '.join(missing)}")


# One side of a comparison: the runs, and which of their cells count.
Side = tuple[Measured, Sequence[Key]]


def _compare(verdict: Comparing, before: Side, after: Side, rule: Rule) -> None:
    """Compare runs where each side has enough, else the repetitions of the newest run; set what the verdict is."""
    sides = (before, after)
    fewest = min(len(measured.runs) for measured, _ in sides)
    verdict.units = "run" if fewest >= FEWEST_RUNS else "repetition"
    values = {figure: [values_of(side, *figure, verdict.units) for side in sides] for figure in FIGURES}
    found = {" ".join(figure): compare(*held) for figure, held in values.items()}
    verdict.effects = {name: comparison for name, comparison in found.items() if comparison is not None}
    judged = values[next(figure for figure in FIGURES if " ".join(figure) == verdict.judged)]
    if verdict.units == "run":
        metric, statistic = verdict.judged.split()
        verdict.null = null_text(sides, lambda side: values_of(side, metric, statistic, "run"))
        if verdict.judged in verdict.effects:
            verdict.tested, verdict.rule = verdict.effects[verdict.judged], rule
            return
        verdict.reason = _no_figure(verdict.judged, judged)
        return
    verdict.outcome = ONE_RUN if fewest == 1 else FEW_RUNS
    verdict.reason = _one_run(verdict, [len(measured.runs) for measured, _ in sides])


def values_of(side: Side, metric: str, statistic: str, unit: str) -> list[float]:
    """Return one figure a run in us, the mean over the cells; NaN where a cell of the run has none.

    Of repetitions: those of the newest run that have an answer in every cell.
    """
    measured, keys = side
    name = _STATISTIC.get(statistic, statistic)
    if unit == "run":
        return [_mean([_figure(cells_of(one).get(key), metric, name) for key in keys]) for one in measured.runs]
    held = [cells_of(measured.runs[-1])[key].by_repetition(metric, name) for key in keys]
    return [_mean([cell[k] for cell in held]) for k in sorted(set.intersection(*(set(cell) for cell in held)))]


def _figure(cell: MeasuredLoop | None, metric: str, name: str) -> float:
    if cell is None:
        return float("nan")
    found = cell.response_quantile(name) if metric == "response" else cell.statistic(metric, name)
    return float("nan") if found is None else found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _no_figure(judged: str, values: Sequence[Sequence[float]]) -> str:
    """Return why runs have no figure to compare."""
    infinite = sum(int(np.isinf(side).sum()) for side in map(np.asarray, values))
    runs = sum(map(len, values))
    if infinite:
        return f"The {judged} is infinite in {infinite} of {runs} runs: more messages are lost than it can leave out."
    return f"In one run at least, nothing was answered in a cell: it has no {judged}."


def _one_run(verdict: Comparing, runs: Sequence[int]) -> str:
    """Return what one run a side shows, and what a verdict needs."""
    effect = verdict.effects.get(verdict.judged)
    shown = (
        f"{runs[0]} and {runs[1]} run(s) differ by {show_percent(effect.share.estimate)} in {verdict.judged}, of the "
        f"newest two {show_percent(effect.share.low)} … {show_percent(effect.share.high)} by their repetitions."
        if effect
        else f"The newest runs have fewer than {FEWEST_REPETITIONS} answered repetitions a side: nothing to compare."
    )
    return f"{shown} How much two runs differ without a cause is unknown: a verdict needs {FEWEST_RUNS} runs a side."


def _no_contrast(verdict: Comparing) -> Comparing:
    """Return the verdict as a negative control: what differs between sides that were treated alike is chance."""
    verdict.outcome, verdict.tested, verdict.rule = NO_CONTRAST, None, None
    effect = verdict.effects.get(verdict.judged)
    shown = f" They differ by {show_percent(effect.share.estimate)} in {verdict.judged}." if effect else ""
    verdict.reason = (
        "The flags permit priority and apply none: both sides were scheduled alike. Whatever differs is no effect of "
        f"priority but chance, a negative control.{shown} ./lab run … --fidelity corrected applies it."
    )
    return verdict


def _applied(about: Sequence[str], before: StoredRun, after: StoredRun) -> bool:
    """Return whether what the claim is about differed: of priority, what the processes were found with."""
    role = _PRIORITISED.get(about[0])
    if role is None:
        return True
    found = [run.treatment(f"{role} scheduling policy") for run in (before, after)]
    policies = [str(treatment.get("found")) for treatment in found if treatment is not None]
    if len(policies) == len(found):
        return policies[0] != policies[1]
    return bool(after.parameters.get("apply_priority"))


def _common_keys(a: Measured, b: Measured) -> list[Key]:
    """Return the cells that both have; only those with published figures, if there are any."""
    both = [key for key in cells_of(a) if key in cells_of(b)]
    sides = (a.run.scenario, b.run.scenario)
    named = [key for key in both if all(published.mean_us(name, key[:1], int(key[1])) is not None for name in sides)]
    return named or both


def guarded(verdict: Comparing, held: Sequence[Measured], about: Sequence[str] | None = None) -> Comparing:
    """Give no verdict from runs that are INVALID or differ in more than the claim is `about` (None: not compared)."""
    verdict.run_ids = [run_id for m in held for run_id in m.run_ids]
    troubles = [f"{m.run.run_id} is INVALID ({m.run.invalid_because})" for m in held if not m.run.valid]
    if about is not None and len(held) == 2:
        apart = differences(held[0].run, held[1].run, about)
        troubles += [f"the runs differ in {what} too" for what in apart]
    troubles += _reached(held)
    if troubles:
        verdict.outcome, verdict.tested, verdict.rule = UNDECIDED, None, None
        verdict.reason = f"Cannot be judged: {'; '.join(troubles)}."
    verdict.beside = [*_overrides(held), *verdict.beside]
    return verdict


def _reached(held: Sequence[Measured]) -> list[str]:
    """Return which runs had a load that delayed the parts which stand for another machine more than O allows."""
    found = [(one.run, one.run.treatment("robot untouched by the load")) for m in held for one in m.runs]
    reached = [(run, t.get("found")) for run, t in found if t is not None and not t.get("verified", True)]
    if not reached:
        return []
    run, how = reached[0]
    return [f"the load reached bridge and robot in {len(reached)} of {len(found)} runs (in {run.run_id}: {how})"]


def _overrides(held: Sequence[Measured]) -> list[str]:
    """Name the factors that were set otherwise than their fidelity has them."""
    notes = []
    for m in held:
        apart = m.run.overrides
        if apart:
            notes.append(f"{m.run.scenario} was run with {', '.join(apart)}, which is not fidelity {m.run.fidelity}.")
    return notes


def said(keys: Sequence[Key]) -> str:
    """Return cells in words: "100, 20 ms, QoS 0"."""
    qos = sorted({f"{q:g}" for _, q in keys})
    intervals = sorted({i for i, _ in keys}, reverse=True)
    if not keys:
        return "none"
    return f"{', '.join(f'{i:g}' for i in intervals)} ms, QoS {', '.join(qos)}"
