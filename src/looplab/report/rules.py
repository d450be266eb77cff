"""From a comparison to an outcome: direction and size of a change both count."""

import math
from functools import partial

from looplab.report.statistics import SIGNIFICANCE, Comparison
from looplab.report.verdicts import NOT_REPRODUCED, OPPOSITE, REPRODUCED, UNDECIDED, WEAKER, Rule

# A change below this share does not matter; the thesis itself calls 3 % "little difference".
MATTERS = 0.10


def directed(what: str, direction: int, published_share: float | None) -> Rule:
    """Return the rule of a claim that `what` is higher (+1) or lower (-1), by `published_share` if that is known."""
    return partial(_directed, what, direction, published_share)


def no_gain(what: str) -> Rule:
    """Return the rule of a claim that `what` is not lowered by as much as matters."""
    return partial(_unchanged, what, -1, "lowered", "gain")


def no_cost(what: str) -> Rule:
    """Return the rule of a claim that `what` is not raised by as much as matters."""
    return partial(_unchanged, what, +1, "raised", "cost")


def alike(what: str, share: float) -> Rule:
    """Return the rule of a claim that `what` does not differ by more than a factor of 1 + `share`."""
    return partial(_alike, what, share)


def half(share: float) -> float:
    """Return half of a change, on the scale of the logarithm."""
    return math.sqrt(1 + share) - 1


def _directed(
    what: str, direction: int, published_share: float | None, found: Comparison, p_value: float
) -> tuple[str, str]:
    word, other = ("higher", "lower") if direction > 0 else ("lower", "higher")
    # In mid-sentence; a name keeps its capital.
    inner = f"the{what.removeprefix('The')}" if what.startswith("The ") else what
    published = _size(published_share, direction) if published_share is not None else None
    low, middle, high = sorted(
        _size(share, direction) for share in (found.share.low, found.share.estimate, found.share.high)
    )
    enough = half(published) if published else MATTERS
    shown = abs(found.share.estimate)
    if high < min(enough, MATTERS):
        if low < 0 < high or p_value >= SIGNIFICANCE:
            return NOT_REPRODUCED, f"If {inner} is {word} at all, then by less than {min(enough, MATTERS):.0%}."
        if high < 0:
            return OPPOSITE, f"{what} is {other} by {shown:.0%}: the other way round."
        return NOT_REPRODUCED, f"{what} is {word} by {shown:.1%}: too little to be what was published."
    if low <= 0:
        return UNDECIDED, "The interval holds both no difference and one that matters."
    if p_value >= SIGNIFICANCE:
        return UNDECIDED, f"The interval says that {inner} is {word}; the test of whole runs does not reach 5 %."
    return _by_size(what, word, (low, middle, high), published, enough)


def _by_size(
    what: str, word: str, measured: tuple[float, float, float], published: float | None, enough: float
) -> tuple[str, str]:
    """Return the outcome of a change whose direction is that of the claim."""
    _low, middle, high = measured
    if middle >= enough:
        return REPRODUCED, f"{what} is {word}, as published."
    if published is not None and high < published:
        return WEAKER, f"{what} is {word}, and by less than half of what was published."
    return UNDECIDED, f"{what} is {word}; by how much is open."


def _unchanged(what: str, direction: int, word: str, change: str, found: Comparison, p_value: float) -> tuple[str, str]:
    low, high = sorted((direction * found.share.low, direction * found.share.high))
    if high < MATTERS:
        return REPRODUCED, f"{what} is not {word} by {MATTERS:.0%} or more."
    if low > MATTERS and p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{what} is {word} by more than {MATTERS:.0%}."
    return UNDECIDED, f"The interval holds both no {change} and one of {MATTERS:.0%} or more."


def _alike(what: str, most: float, found: Comparison, p_value: float) -> tuple[str, str]:
    share, least = found.share, 1 / (1 + most) - 1
    sentence = f"{what} differs by {share.estimate:+.1%}"
    if least <= share.low and share.high <= most:
        return REPRODUCED, f"{sentence}; the whole interval is within a factor {1 + most:g}."
    if (share.low > most or share.high < least) and p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, f"{sentence}, beyond a factor {1 + most:g}."
    return UNDECIDED, f"{sentence}; the interval holds both less and more than a factor {1 + most:g}."


def _size(share: float, direction: int) -> float:
    """Return a change as one upwards: half the latency is as far as twice the latency."""
    return share if direction > 0 else 1 / (1 + share) - 1
