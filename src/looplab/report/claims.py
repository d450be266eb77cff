"""Claims about the figures of one run's cells, by rule; each rule returns what answers the claim.

A rule takes `cells`, which picks the cells of a run that the claim is about, and says in words what is `missing` where
there is none. What no rule can say is a function from a run to a Finding.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from looplab.report.cell import MeasuredCell
from looplab.report.finding import Finding, Line, asked, within
from looplab.report.samples import Measured
from looplab.report.statistics import Interval
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim
from looplab.spec.experiment import Bound, Experiment

# "About n" is within this factor of n: nearer to n than to twice or half of it, on the scale of ratios.
NEAR = math.sqrt(2)
T = TypeVar("T")
U = TypeVar("U")
Answer = Callable[[Measured], Finding]
Cells = Callable[[Measured], Sequence[MeasuredCell]]


def claims(experiment: Experiment) -> list[Claim]:
    """Return the claims that an experiment's report judges."""
    own = experiment.optional_part("report.claims")
    if own:
        listed: list[Claim] = own.claims()
        return listed
    return claims_of(experiment.name, {claim: bounded(bound) for claim, bound in experiment.bounds.items()})


def claims_of(scenario: str, answers: Mapping[tuple[str, str], Answer]) -> list[Claim]:
    """Return claims about the runs of one scenario, by (name, title)."""
    return [asked(name, title, scenario, answer) for (name, title), answer in answers.items()]


def outcome_of(inside: Iterable[bool | None]) -> str:
    """Return the outcome of a claim about several figures: True where one's whole interval agrees, None where it
    holds both."""
    each = list(inside)
    return REPRODUCED if all(one is True for one in each) else NOT_REPRODUCED if False in each else UNDECIDED


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

    A figure that may be 0 in a run has no interval: `judged` returns one that decides in its place.
    """

    def answer(run: Measured) -> Finding:
        values = {cell: cell.interval(figure) for cell in cells(run)}
        if not values:
            return Finding(NO_RUN, f"The run has {missing}.")
        inside = {cell: within(judged(cell) if judged else value, low, high) for cell, value in values.items()}
        out = [str(cell) for cell, one in inside.items() if one is False]
        outcome = outcome_of(inside.values())
        reason = {
            REPRODUCED: f"Every cell is {wanted}",
            NOT_REPRODUCED: f"{len(out)} of {len(values)} cells are not {wanted}",
            UNDECIDED: f"Wanted is {wanted}; an interval holds both, or is not known",
        }[outcome]
        named = f": {'; '.join(out[:3])}{' and others' if len(out) > 3 else ''}" if out else ""
        scale, written = {"us": (0.001, " ms"), "%": (100, " %")}.get(unit, (1, ""))
        estimates = [scale * value.estimate for value in values.values()]
        ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(estimates), max(estimates))))
        reason = f"{reason} ({ends}{written}){named}."
        lines = [Line(str(cell), value, printed(cell), unit) for cell, value in values.items()]
        return Finding(outcome, reason, lines=lines)

    return answer


def about(figure: str, wanted: float, cells: Cells, missing: str) -> Answer:
    """Return the rule that a figure of every cell is about `wanted`."""
    near = f"within a factor {NEAR:.2f} of {wanted:g}"
    return every(figure, wanted / NEAR, wanted * NEAR, near, cells, missing, printed=lambda _cell: f"{wanted:g}")


def means(cells: Sequence[T], figures: Callable[[T], Mapping[U, float]]) -> dict[U, float]:
    """Return the geometric mean over `cells` of what counts once, e.g. a run, if all cells have its figure."""
    by_cell = [figures(cell) for cell in cells]
    return {
        unit: float(np.exp(np.mean(np.log([one[unit] for one in by_cell]))))
        for unit in (by_cell[0] if by_cell else ())
        if all(unit in one for one in by_cell)
    }


def valid_cells(run: Measured) -> Sequence[MeasuredCell]:
    """Return the valid cells of a run."""
    return [cell for cell in run.cells.values() if cell.valid]


def bounded(bound: Bound[str]) -> Answer:
    """Return the rule that a figure of every valid cell lies within a bound."""
    wanted = str(bound)
    return every(bound.figure, *bound.ends, wanted, valid_cells, "no valid cell", printed=lambda _cell: wanted)


def at_least(figure: str, wanted: float, cells: Cells, missing: str, what: str) -> Answer:
    """Return the rule that the largest figure of the cells is `wanted` or more; `what` is its unit in words."""

    def answer(run: Measured) -> Finding:
        chosen = cells(run)
        if not chosen:
            return Finding(NO_RUN, f"The run has {missing}.")
        values = {str(cell): cell.interval(figure) for cell in chosen}
        most = max(values, key=lambda name: values[name].estimate)
        lines = [Line(most, values[most], f"at least {wanted:g}")]
        return replace(threshold(values[most], wanted, f"{what} at most"), lines=lines)

    return answer


def threshold(value: Interval, wanted: float, what: str) -> Finding:
    """Return whether a figure is `wanted` or more."""
    sentence = f"{value.estimate:.2f} {what}, published are {wanted:g}."
    outcome = outcome_of([within(value, wanted, math.inf)])
    return Finding(
        outcome, sentence if outcome != UNDECIDED or not value.known else f"{sentence} The interval holds both."
    )


def mean_of(values: Sequence[Interval]) -> Interval:
    """Return the mean of figures; without an interval if one has none.

    Averaging the bounds treats the cells' errors as if they went together: too wide rather than too narrow.
    """
    known = all(value.known for value in values)
    bounds = [float(np.mean([getattr(value, side) for value in values])) for side in ("estimate", "low", "high")]
    return Interval(*bounds) if known else Interval(bounds[0], math.nan, math.nan)
