"""How figures decide a claim: a comparison by its direction, size and scale, or intervals by the bounds they keep.

A comparison asks two questions of which at most one is true: is there no difference, and is there one that matters?
The first is answered by the permutation test, the second by one-sided t tests; both are adjusted for their family.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from scipy.stats import binomtest, gmean

from looplab.errors import LabError
from looplab.report.cell import MeasuredCell
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import SIGNIFICANCE, Comparison, Interval, PValues
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    NOT_REPRODUCED,
    OTHER_SCALE,
    REPRODUCED,
    UNDECIDED,
    Hypotheses,
    Line,
    Outcome,
    Printed,
    Verdict,
    not_run,
)
from looplab.spec.experiment import Bound

# A change below this share does not matter; the thesis itself calls 3 % "little difference".
MATTERS = 0.10
# A baseline that differs from the published one by more than this factor is another scale.
SCALE = 2.0
# "About n" is within this factor of n: nearer to n than to twice or half of it, on the scale of ratios.
NEAR = math.sqrt(2)
DIRECTIONS = {"higher": +1, "lower": -1}
T = TypeVar("T")
U = TypeVar("U")
# What answers a claim: from the runs of each of its scenarios.
Answer = Callable[..., Verdict]
Cells = Callable[[MeasuredRuns], Sequence[MeasuredCell]]
# How a comparison decides.
Rule = Callable[[Comparison], Hypotheses]


def decided(comparison: Comparison, rule: Rule) -> Verdict:
    """Return a verdict that `rule` decides once the p-values of its family are known."""
    return Verdict(question=rule(comparison), tested=comparison, share=comparison.share)


def rule_of(word: str, what: str, printed: Printed = Printed()) -> Rule:  # noqa: B008
    """Return the rule of that name in claims.csv; `printed` is published. LabError for another name."""
    if word == "alike":
        return alike(what, MATTERS)
    if word == "not lower":
        return no_gain(what)
    if word not in DIRECTIONS:
        raise LabError(f"claims.csv: no rule is named {word!r}", f"Write {', '.join(DIRECTIONS)}, alike or not lower.")
    return directed(what, DIRECTIONS[word], printed.share, printed.before, claimed=printed.share is not None)


def directed(
    what: str, direction: int, published_share: float | None, baseline: float | None = None, *, claimed: bool = True
) -> Rule:
    """Return the rule of a claim that `what` is higher (+1) or lower (-1), by `published_share` if that is known.

    With the published `baseline` (the figure before the change) also by the absolute change. A claim that no source
    makes is not `claimed`: its reasons speak of no publication.
    """
    published = _size(published_share, direction) if published_share is not None else None
    enough = half(published) if published else MATTERS

    def decide(comparison: Comparison, difference: float, equivalence: float, _questions: int) -> Outcome:
        word, other = ("higher", "lower") if direction > 0 else ("lower", "higher")
        # In mid-sentence; a name keeps its capital.
        inner = f"the{what.removeprefix('The')}" if what.startswith("The ") else what
        share, certain = comparison.share, difference < SIGNIFICANCE
        low, _, high = sorted(_size(one, direction) for one in (share.low, share.estimate, share.high))
        least, shown = min(enough, MATTERS), abs(share.estimate)
        if high < 0 and certain:
            return NOT_REPRODUCED, f"{what} is {other} by {shown:.0%}: the other way round."
        if high < least and equivalence < SIGNIFICANCE:
            if low < 0 or not certain:
                return NOT_REPRODUCED, f"If {inner} is {word} at all, then by less than {least:.0%}."
            little = ": too little to be what was published" if claimed else ""
            return NOT_REPRODUCED, f"{what} is {word} by {shown:.1%}{little}."
        if low <= 0:
            return UNDECIDED, "The interval holds both no difference and one that matters."
        if not certain:
            return UNDECIDED, f"The interval says that {inner} is {word}; the test of whole runs does not reach 5 %."
        scale = _scale(comparison, published_share, baseline, low >= enough)
        if low >= enough:
            as_published = ", as published" if claimed and not scale else ""
            return OTHER_SCALE if scale else REPRODUCED, f"{what} is {word}{as_published}.{scale}"
        if published is not None and high < published:
            return OTHER_SCALE, f"{what} is {word}, and by less than was published.{scale}"
        return UNDECIDED, f"{what} is {word}; by how much is open."

    def asks(comparison: Comparison) -> Hypotheses:
        most = min(enough, MATTERS)
        share = comparison.share
        less = share.p_below(most) if direction > 0 else share.p_above(1 / (1 + most) - 1)
        return Hypotheses((comparison.p_value, less), partial(decide, comparison), comparison.least_p)

    return asks


def _scale(comparison: Comparison, share: float | None, baseline: float | None, enough: bool) -> str:
    """Return, as a sentence to add, how far baseline or absolute change are from the published ones; "" if near."""
    if share is None or not baseline:
        return ""
    times, change = comparison.before / baseline, comparison.change.estimate
    if not 1 / SCALE <= times <= SCALE:
        return f" The scale is another: the baseline is {times:.2g} times the published one."
    if enough and abs(change) < abs(half(share) * baseline):
        return (
            f" The scale is another: the absolute change is {change / (share * baseline):.2g} times the published one."
        )
    return ""


def half(share: float) -> float:
    """Return half of a change, on the scale of the logarithm."""
    return math.sqrt(1 + share) - 1


def _size(share: float, direction: int) -> float:
    """Return a change as one upwards: half the latency is as far as twice the latency."""
    return share if direction > 0 else 1 / (1 + share) - 1


def no_gain(what: str) -> Rule:
    """Return the rule of a claim that `what` is not lowered by as much as matters."""
    return unchanged(what, -MATTERS, math.inf, f"lowered by {MATTERS:.0%} or more")


def no_cost(what: str) -> Rule:
    """Return the rule of a claim that `what` is not raised by as much as matters."""
    return unchanged(what, -1.0, MATTERS, f"raised by {MATTERS:.0%} or more")


def alike(what: str, share: float) -> Rule:
    """Return the rule of a claim that `what` does not differ by more than a factor of 1 + `share`."""
    return unchanged(what, 1 / (1 + share) - 1, share, f"beyond a factor {1 + share:g}")


def unchanged(what: str, low: float, high: float, beyond: str) -> Rule:
    """Return the rule of a claim that `what` changes by a share from `low` to `high`; else it is `beyond`.

    By two one-sided tests (Schuirmann 1987).
    """

    def decide(comparison: Comparison, difference: float, equivalence: float, _questions: int) -> Outcome:
        inside = comparison.share.within(low, high)
        sentence = f"{what} differs by {comparison.share.estimate:+.1%}"
        if inside and equivalence < SIGNIFICANCE:
            return REPRODUCED, f"{sentence}: surely not {beyond}."
        if inside is False and difference < SIGNIFICANCE:
            return NOT_REPRODUCED, f"{sentence}: surely {beyond}."
        return UNDECIDED, f"{sentence}; whether it is {beyond} is open."

    def asks(comparison: Comparison) -> Hypotheses:
        matters = max(comparison.share.p_below(high), comparison.share.p_above(low))
        return Hypotheses((comparison.p_value, matters), partial(decide, comparison))

    return asks


def without_constant(rule: Rule, baseline: float | None) -> Rule:
    """Return the rule for a figure that holds a constant which was fitted to a publication: it must decide no word.

    It judges the absolute change, as a share of the published `baseline`. Without that, its word is by construction.
    """
    return lambda comparison: rule(comparison.on(baseline)) if baseline else by_construction(rule(comparison))


def by_construction(question: Hypotheses) -> Hypotheses:
    """Return a question whose every word was decided by a constant that was fitted."""

    def decide(false: float, true: float, questions: int) -> Outcome:
        outcome, reason = question.decide(false, true, questions)
        if outcome == UNDECIDED:
            return outcome, reason
        return BY_CONSTRUCTION, f"{reason} How large that is was decided by a constant that was fitted."

    return replace(question, decide=decide)


def stated(
    parts: Sequence[PValues],
    reason: str | Mapping[str, str],
    lines: Sequence[Line] = (),
    notes: Sequence[str] = (),
    runs: int = 0,
) -> Verdict:
    """Return the verdict on a claim of several parts, all of which must be true; `reason` may be one by outcome.

    Of a claim that holds or not in a run, `runs` is in how many it is known: so many cannot give a smaller p-value.
    """
    p_values = together(parts)

    def decide(false: float, true: float, questions: int) -> Outcome:
        outcome = REPRODUCED if false < SIGNIFICANCE else NOT_REPRODUCED if true < SIGNIFICANCE else UNDECIDED
        why = reason if isinstance(reason, str) else reason[outcome]
        alone = outcome == UNDECIDED and min(p_values) < SIGNIFICANCE
        return outcome, f"{why} Alone it would be decided; {questions} questions are asked together." if alone else why

    # What is not known can be neither shown nor refuted, so it takes no power from other claims.
    question = Hypotheses(p_values, decide, 1.0 if min(p_values) >= 1 else 0.5**runs if runs else 0.0)
    return Verdict(reason=decide(*p_values, 1)[1], notes=[*notes], lines=lines, question=question)


def together(parts: Sequence[PValues], *, every_part: bool = True) -> PValues:
    """Return the p-values of all parts of a statement (or of any) being false, and true.

    For all, each must be shown, while any false one refutes them (Bonferroni).
    """
    false, true = zip(*parts, strict=True)
    if every_part:
        return max(false), min(1.0, len(true) * min(true))
    return min(1.0, len(false) * min(false)), max(true)


def mostly(holds: Iterable[bool | None]) -> PValues:
    """Return the p-values of a statement that holds in most runs, by whether it holds in each; None is left out."""
    known = [one for one in holds if one is not None]
    if not known:
        return 1.0, 1.0
    greater, less = (binomtest(sum(known), len(known), alternative=other).pvalue for other in ("greater", "less"))
    return float(greater), float(less)


def kept(lines: Sequence[Line], low: float, high: float, reason: str) -> Verdict:
    """Return whether each of the lines' figures is from `low` to `high`."""
    return stated([line.value.p_values(low, high) for line in lines], reason, lines)


def every(
    figure: str,
    low: float,
    high: float,
    wanted: str,
    cells: Cells,
    missing: str,
    *,
    printed: Callable[[Any], str] = lambda _cell: "",
    unit: str = "×",
    judged: Callable[[Any], Interval] | None = None,
) -> Answer:
    """Return the rule that a figure of every cell is from `low` to `high`; `wanted` are these bounds in words.

    `cells` picks those of a run, `missing` says in words what a run without any has not. A figure that may be 0 in a
    run has no interval: `judged` returns one that decides in its place.
    """

    def answer(run: MeasuredRuns) -> Verdict:
        values = {cell: cell.interval(figure) for cell in cells(run)}
        if not values:
            return not_run(f"The run has {missing}.")
        deciding = {cell: judged(cell) if judged else value for cell, value in values.items()}
        out = [str(cell) for cell, value in deciding.items() if value.within(low, high) is False]
        named = f": {'; '.join(out[:3])}{' and others' if len(out) > 3 else ''}" if out else ""
        scale, written = {"us": (0.001, " ms"), "%": (100, " %")}.get(unit, (1, ""))
        estimates = [scale * value.estimate for value in values.values()]
        ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(estimates), max(estimates))))
        reasons = {
            REPRODUCED: f"Every cell is {wanted}",
            NOT_REPRODUCED: f"{len(out)} of {len(values)} cells are not {wanted}",
            UNDECIDED: f"Wanted is {wanted}; an interval holds both, or is not known",
        }
        return stated(
            [value.p_values(low, high) for value in deciding.values()],
            {outcome: f"{reason} ({ends}{written}){named}." for outcome, reason in reasons.items()},
            [Line(str(cell), value, printed(cell), unit) for cell, value in values.items()],
        )

    return answer


def about(figure: str, wanted: float, cells: Cells, missing: str) -> Answer:
    """Return the rule that a figure of every cell is about `wanted`."""
    near = f"within a factor {NEAR:.2f} of {wanted:g}"
    return every(figure, wanted / NEAR, wanted * NEAR, near, cells, missing, printed=lambda _cell: f"{wanted:g}")


def at_least(figure: str, wanted: float, cells: Cells, missing: str, what: str) -> Answer:
    """Return the rule that a figure of every cell is `wanted` or more; `what` is its unit in words."""
    at_least, unit = f"at least {wanted:g}", f"{wanted:g} {what} or more"
    return every(figure, wanted, math.inf, unit, cells, missing, printed=lambda _cell: at_least)


def bounded(bound: Bound[str]) -> Answer:
    """Return the rule that a figure of every valid cell lies within a bound."""
    wanted = str(bound)

    def valid(run: MeasuredRuns) -> Sequence[MeasuredCell]:
        return [cell for cell in run.cells.values() if cell.valid]

    return every(bound.figure, *bound.ends, wanted, valid, "no valid cell", printed=lambda _cell: wanted)


def means(cells: Sequence[T], figures: Callable[[T], Mapping[U, float]]) -> dict[U, float]:
    """Return the geometric mean over `cells` of what counts once, e.g. a run, if all cells have its figure."""
    by_cell = [figures(cell) for cell in cells]
    return {
        unit: float(gmean([one[unit] for one in by_cell]))
        for unit in (by_cell[0] if by_cell else ())
        if all(unit in one for one in by_cell)
    }
