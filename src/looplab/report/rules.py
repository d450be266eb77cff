"""From a comparison to an outcome: direction, size and scale of a change all count.

A rule asks two questions of which at most one is true: is there no difference, and is there one that matters? The
first is answered by the permutation test, the second by one-sided t tests; both p-values are adjusted for the page.
"""

import math
from functools import partial

from looplab.report.statistics import SIGNIFICANCE, Comparison
from looplab.report.verdicts import NOT_REPRODUCED, OPPOSITE, OTHER_SCALE, REPRODUCED, UNDECIDED, WEAKER, Adjusted, Rule

# A change below this share does not matter; the thesis itself calls 3 % "little difference".
MATTERS = 0.10
# A baseline that differs from the published one by more than this factor is another scale.
SCALE = 2.0


def directed(
    what: str, direction: int, published_share: float | None, baseline: float | None = None, *, claimed: bool = True
) -> Rule:
    """Return the rule of a claim that `what` is higher (+1) or lower (-1), by `published_share` if that is known.

    With the published `baseline` (the figure before the change) also by the absolute change. A claim that no source
    makes is not `claimed`: its reasons speak of no publication.
    """
    published = _size(published_share, direction) if published_share is not None else None
    most = min(half(published), MATTERS) if published else MATTERS
    decide = partial(_directed, what, direction, (published_share, baseline), claimed)
    return Rule(decide, partial(_p_less, direction, most))


def no_gain(what: str) -> Rule:
    """Return the rule of a claim that `what` is not lowered by as much as matters."""
    return Rule(
        partial(_unchanged, what, -1, "lowered", "gain"), lambda comparison: comparison.p_above(-MATTERS), alike=True
    )


def no_cost(what: str) -> Rule:
    """Return the rule of a claim that `what` is not raised by as much as matters."""
    return Rule(
        partial(_unchanged, what, +1, "raised", "cost"), lambda comparison: comparison.p_below(MATTERS), alike=True
    )


def alike(what: str, share: float) -> Rule:
    """Return the rule of a claim that `what` does not differ by more than a factor of 1 + `share`.

    By two one-sided tests (Schuirmann 1987).
    """
    least = 1 / (1 + share) - 1
    tests = lambda comparison: max(comparison.p_below(share), comparison.p_above(least))  # noqa: E731
    return Rule(partial(_alike, what, share), tests, alike=True)


def half(share: float) -> float:
    """Return half of a change, on the scale of the logarithm."""
    return math.sqrt(1 + share) - 1


def _p_less(direction: int, most: float, comparison: Comparison) -> float:
    """Return the p-value of a change of `most` or more in its direction."""
    return comparison.p_below(most) if direction > 0 else comparison.p_above(1 / (1 + most) - 1)


def _directed(
    what: str,
    direction: int,
    printed: tuple[float | None, float | None],
    claimed: bool,
    comparison: Comparison,
    p: Adjusted,
) -> tuple[str, str]:
    word, other = ("higher", "lower") if direction > 0 else ("lower", "higher")
    # In mid-sentence; a name keeps its capital.
    inner = f"the{what.removeprefix('The')}" if what.startswith("The ") else what
    published = _size(printed[0], direction) if printed[0] is not None else None
    low, _, high = sorted(
        _size(share, direction) for share in (comparison.share.low, comparison.share.estimate, comparison.share.high)
    )
    enough = half(published) if published else MATTERS
    least = min(enough, MATTERS)
    shown = abs(comparison.share.estimate)
    certain = p.difference < SIGNIFICANCE
    if high < 0 and certain:
        return OPPOSITE, f"{what} is {other} by {shown:.0%}: the other way round."
    if high < least and p.equivalence < SIGNIFICANCE:
        if low < 0 or not certain:
            return NOT_REPRODUCED, f"If {inner} is {word} at all, then by less than {least:.0%}."
        little = ": too little to be what was published" if claimed else ""
        return NOT_REPRODUCED, f"{what} is {word} by {shown:.1%}{little}."
    if low <= 0:
        return UNDECIDED, "The interval holds both no difference and one that matters."
    if not certain:
        return UNDECIDED, f"The interval says that {inner} is {word}; the test of whole runs does not reach 5 %."
    outcome, reason = _by_size(f"{what} is {word}", (low, high), published, enough, claimed)
    return _by_scale(outcome, reason, printed, comparison)


def _by_size(
    change: str, measured: tuple[float, float], published: float | None, enough: float, claimed: bool
) -> tuple[str, str]:
    """Return the outcome of a change whose direction is that of the claim: the whole interval must hold enough."""
    low, high = measured
    if low >= enough:
        return REPRODUCED, f"{change}{', as published' if claimed else ''}."
    if published is not None and high < published:
        return WEAKER, f"{change}, and by less than was published."
    return UNDECIDED, f"{change}; by how much is open."


def _by_scale(
    outcome: str, reason: str, printed: tuple[float | None, float | None], comparison: Comparison
) -> tuple[str, str]:
    """Return OTHER_SCALE where baseline or absolute change is far from the published one."""
    share, baseline = printed
    if outcome not in (REPRODUCED, WEAKER) or share is None or not baseline:
        return outcome, reason
    times = comparison.before / baseline
    if not 1 / SCALE <= times <= SCALE:
        why = f"the baseline is {times:.2g} times the published one"
    elif outcome == REPRODUCED and abs(comparison.change.estimate) < abs(half(share) * baseline):
        why = f"the absolute change is {comparison.change.estimate / (share * baseline):.2g} times the published one"
    else:
        return outcome, reason
    return OTHER_SCALE, f"{reason.removesuffix('.').removesuffix(', as published')}. The scale is another: {why}."


def _unchanged(
    what: str, direction: int, word: str, change: str, comparison: Comparison, p: Adjusted
) -> tuple[str, str]:
    low, high = sorted((direction * comparison.share.low, direction * comparison.share.high))
    if high < MATTERS and p.equivalence < SIGNIFICANCE:
        return REPRODUCED, f"{what} is not {word} by {MATTERS:.0%} or more."
    if low > MATTERS and p.difference < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{what} is {word} by more than {MATTERS:.0%}."
    return UNDECIDED, f"The interval holds both no {change} and one of {MATTERS:.0%} or more."


def _alike(what: str, most: float, comparison: Comparison, p: Adjusted) -> tuple[str, str]:
    share, least = comparison.share, 1 / (1 + most) - 1
    sentence = f"{what} differs by {share.estimate:+.1%}"
    if least <= share.low and share.high <= most and p.equivalence < SIGNIFICANCE:
        return REPRODUCED, f"{sentence}; the whole interval is within a factor {1 + most:g}."
    if (share.low > most or share.high < least) and p.difference < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{sentence}, beyond a factor {1 + most:g}."
    return UNDECIDED, f"{sentence}; the interval holds both less and more than a factor {1 + most:g}."


def _size(share: float, direction: int) -> float:
    """Return a change as one upwards: half the latency is as far as twice the latency."""
    return share if direction > 0 else 1 / (1 + share) - 1
