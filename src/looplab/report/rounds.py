"""Which study a verdict rests on, what was measured in each of its rounds, and how far its A/A arms are apart.

A study's rounds are settled before its first run. Its runs alone enter its verdict, and only when all are done: a look
after each round would find a difference of nothing in every ninth study.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

from looplab.report.page import show_percent
from looplab.report.rules import Rule
from looplab.report.samples import MeasuredRuns, grouped
from looplab.report.statistics import FEWEST_RUNS, Block, Comparison, compare, compare_blocks, difference
from looplab.report.stored import differences
from looplab.report.study_file import Study, digest_of_rules, read_studies
from looplab.report.verdicts import INTERIM, NO_PLAN, UNDECIDED, Hypotheses, Line, Outcome, Verdict, too_few
from looplab.run import quiet
from looplab.system.words import plural

# How surely an A/A pair must differ to forbid a verdict: of sound studies with two pairs, one in fifty loses its own.
VETO = 0.01
# A load is judged by its dose: a run whose load took more or less than the side's others by this share is another.
SAME_DOSE = 0.20
# The dose is found by the end of its name in a cell. Messages count first: their sender takes little of a processor.
_DOSES = {"_messages_per_s": "messages/s", "_cpu_s": "CPU s/s"}
# They do not change while a report is made.
todays_rules = cache(digest_of_rules)
# Why a verdict is withheld.
_WITHHELD = {
    INTERIM: "Not all of the study's runs are done: what they show may still change.",
    NO_PLAN: (
        "How many runs there would be was not settled before the first one: who looks after each run finds a "
        "difference of nothing in one of nine studies. `./lab study` plans its rounds, and `./lab run … --rounds N` "
        "does."
    ),
}


def study_of(sides: Sequence[MeasuredRuns]) -> Study | None:
    """Return the newest study that is done and has runs of all sides, else the newest that is not; None without one."""
    own = [{run_id for group in (side, *side.earlier) for run_id in group.run_ids} for side in sides]
    studies = [
        study
        for study in read_studies(sides[0].run.path.parent)
        if all(run_ids & study.places.keys() for run_ids in own)
    ]
    return max(studies, key=lambda study: (not study.left, study.study), default=None)


def withhold(verdict: Verdict, runs: int, study: Study | None) -> None:
    """Give no verdict on so few runs, on unplanned ones, or on an unfinished study."""
    if because := too_few(runs) or (NO_PLAN if study is None else INTERIM if study.left else ""):
        why = _WITHHELD.get(because, f"A verdict needs {FEWEST_RUNS} runs a side: `./lab study` plans them.")
        verdict.withdraw(f"{verdict.reason} {why}".strip(), because)


def planned(study: Study | None, claim: str, sides: Sequence[MeasuredRuns]) -> str:
    """Return which study the verdict on a claim rests on, how much of it is done, and whether it was planned under
    today's rules; also how many studies of the claim there are, and how many were left unfinished."""
    if study is None:
        return "No study: the number of runs was not planned."
    run = sides[0].run
    done = f"{len(study.runs)} of {len(study.runs) + len(study.left)} runs are done"
    text = f"Study {study.study}: {study.rounds} rounds were planned before its first run, {done}."
    others = [one for one in read_studies(run.path.parent) if {m.run.scenario for m in sides} <= {*one.arms.values()}]
    left = [len({block for block, _ in one.places.values()}) for one in others if one.left and one != study]
    if len(others) > 1:
        text += f" It is study {others.index(study) + 1} of {len(others)} of this claim here."
    text += "".join(f" One was left after {plural(rounds, 'round')}." for rounds in left)
    if not study.rules:
        return f"{text} The rules of before its first run were not stored."
    if study.rules != todays_rules(run.layout.experiment.folder):
        word = study.words.get(claim, {}).get(run.fidelity)
        text += " It is judged by other rules than were planned" + (f", by which it was: {word}." if word else ".")
    return text


def within(study: Study | None, side: MeasuredRuns) -> MeasuredRuns:
    """Return a side with the runs that enter its verdict; all of the study's if none may, which `unfit` then says."""
    planned = _planned(study, side)
    out = left_out(planned)
    return replace(grouped([one for one in planned if one.run.run_id not in out] or planned), study=study)


def _planned(study: Study | None, side: MeasuredRuns) -> Sequence[MeasuredRuns]:
    """Return a side's runs of the study alone, whatever was run since; all of its runs without a study."""
    places = study.places if study else {}
    groups = ([one for one in group.runs if one.run.run_id in places] for group in (side, *side.earlier))
    return next(filter(None, groups), side.runs)


def left_out(runs: Sequence[MeasuredRuns]) -> dict[str, str]:
    """Return which runs of a side no verdict rests on, and why: not quiet, or another dose of the load."""
    why = {one.run.run_id: quiet.why_not(one.run.document) for one in runs if not quiet.counts(one.run.document)}
    doses = {one.run.run_id: own for one in runs if (own := dose_of(one.run.document))[0]}
    quiet_doses = [dose for run_id, (dose, _) in doses.items() if run_id not in why]
    usual = median(quiet_doses) if quiet_doses else 0.0
    for run_id, (dose, unit) in doses.items():
        if usual and abs(dose / usual - 1) > SAME_DOSE:
            why.setdefault(run_id, f"its load was {dose:.3g} {unit}, {dose / usual:.0%} of the usual")
    return why


def left_out_notes(study: Study | None, *sides: tuple[MeasuredRuns, MeasuredRuns]) -> Iterator[str]:
    """Yield which runs of each side (all; those used) the verdict does not rest on, and why."""
    for every, used in sides:
        for run_id, why in left_out(_planned(study, every)).items():
            if run_id not in used.run_ids:
                yield f"{run_id} is left out: {why}."


def unfit(compared: Sequence[MeasuredRuns], about: Sequence[str] | None = None) -> str:
    """Return why these runs give no verdict, "" if they may: INVALID, a factor overridden, reached by the load, or
    different in more than the claim is `about` (None: not compared)."""
    troubles = [f"{m.run.run_id} is INVALID ({m.run.invalid_because})" for m in compared if not m.run.valid]
    if about is not None:
        runs = [m.run for m in compared]
        troubles += [f"the runs differ in {what} too" for what in differences(runs[0], runs[-1], about)]
    # A side is judged once, with all its runs: without those left out, the median dose would be another one.
    out = [(m, left_out(m.runs)) for m in compared]
    troubles += [f"{run_id}: {why}" for m, by_id in out if len(by_id) == len(m.runs) for run_id, why in by_id.items()]
    judged = [(one.run, one.run.treatment("robot untouched by the load")) for m in compared for one in m.runs]
    reached = [(run, t.get("found")) for run, t in judged if t is not None and not t.get("verified", True)]
    troubles += [
        f"the load reached bridge and robot in {len(reached)} of {len(judged)} runs (in {run.run_id}: {how})"
        for run, how in reached[:1]
    ]
    troubles += [
        f"{m.run.scenario} was run with {', '.join(m.run.overrides)}, which is not fidelity {m.run.fidelity}"
        for m in compared
        if m.run.overrides
    ]
    return f"Cannot be judged: {'; '.join(dict.fromkeys(troubles))}." if troubles else ""


def dose_of(document: Mapping[str, Any]) -> tuple[float, str]:
    """Return the dose of a run's load, a second, and its unit; 0 without a load, and where none was counted."""
    for end, unit in _DOSES.items():
        name = f"{document['parameters'].get('load', '')}{end}"
        loads = [load for cell in document["cells"] if (load := cell.get("load") or {}).get(name)]
        seconds = sum(load["seconds"] for load in loads)
        # CPU time is a sum over the cell, messages are counted a second already.
        each = (load[name] * (load["seconds"] if end.endswith("_per_s") else 1) for load in loads)
        if seconds:
            return sum(each) / seconds, unit
    return 0.0, ""


# One figure of a run.
Value = Callable[[MeasuredRuns], float]
# Both sides of a comparison: the runs of each, the very same for two cells of one run, and a figure of theirs.
Sides = tuple[tuple[MeasuredRuns, Value], tuple[MeasuredRuns, Value]]


def compared(figures: Mapping[str, Sides], rule: Rule, unit: str) -> Verdict:
    """Return the verdict on two sides by figures of their runs in `unit`: `rule` decides by the first of them.

    A/A arms may veto what is decided.
    """
    found = {name: both for name, sides in figures.items() if (both := _by_rounds(sides))}
    judged, sides = next(iter(figures.items()))
    arms = nulls(sides)
    verdict = Verdict(lines=[Line(name, both.share, unit=unit, compared=both) for name, both in found.items()])
    verdict.notes += [f"{null_text(arms)}."] if arms else []
    if judged not in found:
        verdict.reason = _no_figure(judged, sides)
        return verdict
    verdict.tested, verdict.share = found[judged], found[judged].share
    rounds = len(blocks(sides))
    if rounds >= FEWEST_RUNS:
        verdict.question = vetoed(rule(verdict.tested), arms)
    elif min(len(measured.runs) for measured, _ in sides) < FEWEST_RUNS:
        share = show_percent(verdict.share.estimate)
        verdict.reason = f"Both sides differ by {share} in {judged}. How much runs differ without a cause is unknown."
    elif sides[0][0].study:
        verdict.reason = f"{rounds} rounds have both sides; {FEWEST_RUNS} are the fewest."
    return verdict


def _by_rounds(sides: Sides) -> Comparison | None:
    """Compare sides round by round; without rounds all their runs, of too few runs the newest ones."""
    rounds = blocks(sides)
    if len(rounds) >= FEWEST_RUNS:
        return compare_blocks(rounds)
    before, after = ([value(one) for one in measured.runs] for measured, value in sides)
    if min(len(before), len(after)) >= FEWEST_RUNS:
        return compare(before, after)
    return difference(before[-1], after[-1])


def _no_figure(judged: str, sides: Sides) -> str:
    """Return why runs have no figure to compare."""
    values = [value(one) for measured, value in sides for one in measured.runs]
    if infinite := sum(map(math.isinf, values)):
        often = f"{infinite} of {len(values)} runs"
        return f"The {judged} is infinite in {often}: more messages are lost than it can leave out."
    return f"One run at least has no {judged}, e.g. because nothing was answered in a cell."


def blocks(sides: Sides) -> list[Block]:
    """Return the figures of both sides by round, of rounds with both; two cells of one run are compared within it."""
    study, same = sides[0][0].study, sides[0][0] is sides[1][0]
    if study is None and not same:
        return []
    places = study.places if study else {}
    by_block: dict[object, tuple[list[float], list[float]]] = {}
    for at, (measured, value) in enumerate(sides):
        for one in measured.runs:
            run_id = one.run.run_id
            by_block.setdefault(run_id if same else places[run_id][0], ([], []))[at].append(value(one))
    return [block for block in by_block.values() if all(block)]


def nulls(sides: Sides) -> Mapping[str, Comparison]:
    """Return, by scenario, the difference of the two arms that a study has of it: chance alone."""
    by_scenario = {}
    for measured, value in sides:
        places = measured.study.places if measured.study else {}
        by_round: dict[int, dict[str, float]] = {}
        for one in measured.runs:
            if one.run.run_id in places:
                block, arm = places[one.run.run_id]
                by_round.setdefault(block, {})[arm] = value(one)
        arms = sorted({arm for by_arm in by_round.values() for arm in by_arm})
        pairs = [tuple([by_arm[arm]] for arm in arms) for by_arm in by_round.values() if len(by_arm) == len(arms)]
        if len(arms) == 2 and (null := compare_blocks([(before, after) for before, after in pairs])):
            by_scenario[measured.run.scenario] = null
    return by_scenario


def null_text(nulls: Mapping[str, Comparison]) -> str:
    """Return in words what two arms of each scenario differ by, nothing behind it."""
    return "; ".join(
        f"A/A: two arms of {scenario} differ by {show_percent(null.share.estimate)} "
        f"({show_percent(null.share.low)} … {show_percent(null.share.high)})"
        for scenario, null in nulls.items()
    )


def vetoed(question: Hypotheses, null: Mapping[str, Comparison]) -> Hypotheses:
    """Return a question that A/A arms may leave undecided: those that differ by more than chance."""
    differ = [scenario for scenario, arms in null.items() if arms.share.p_values(0.0, 0.0)[1] < VETO]

    def decide(difference: float, equivalence: float, questions: int) -> Outcome:
        outcome, reason = question.decide(difference, equivalence, questions)
        if outcome == UNDECIDED or not differ:
            return outcome, reason
        why = f"Two arms of {differ[0]}, which nothing distinguishes, differ by more than chance."
        return UNDECIDED, f"{reason} {why} So nothing is decided."

    return replace(question, decide=decide)
