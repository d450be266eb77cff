"""Draw all claims in one figure: effect and interval, the published mark, the verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from looplab.report.drawing import GREY, OVERVIEW, Plot, logarithmic
from looplab.report.verdicts import NO_VERDICT, SIGNS, Claim, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.verdicts import Verdicts

WIDTH_INCHES, EDGES_INCHES, ROW_INCHES = 9.6, 1.0, 0.37
# Of the figure's width: claims on the left, verdicts on the right.
LEFT, RIGHT = 0.36, 0.79
TITLE_LETTERS = 52
# Beyond these factors a mark is drawn at the edge; within NEAR the axis is never narrower.
LEAST, MOST = 0.05, 50.0
NEAR = (0.5, 2.0)
# Colour and mark of each fidelity: apart in grey print, too.
STYLES = {"printed": ("#009e73", "^"), "thesis": ("#0072b2", "o"), "corrected": ("#000000", "s")}
CAPTION = (
    "Each claim: the measured change as a factor with its 95 % interval, the published one, the verdict. A claim on "
    f"counts of messages has no change to draw. Beyond {LEAST:g} and {MOST:g} marks are at the edge."
)
# A claim with its verdict at one fidelity.
Mark = tuple[Claim, str, Verdict]


def overview(name: str, verdicts: Verdicts, axis: str) -> list[Plot]:
    """Return the figure of the claims with a figure or a verdict; none without a figure. `axis` names what changes."""
    marks = [
        (claim, fidelity, verdict)
        for claim, answers in verdicts
        for fidelity, verdict in answers.items()
        # A published mark alone compares nothing; a claim on counts has its verdict.
        if verdict.run and (verdict.share or (verdict.published.share is None and verdict.outcome != NO_VERDICT))
    ]
    if not any(verdict.share for *_, verdict in marks):
        return []
    height = EDGES_INCHES + ROW_INCHES * len(marks)
    place = (LEFT, 0.62 / height, RIGHT - LEFT, 1 - EDGES_INCHES / height)
    text = f"All claims. {'; '.join(_in_words(*mark) for mark in marks)}."
    put = partial(_put, marks, axis)
    return [Plot(f"{name}_claims", OVERVIEW, "", CAPTION, text, put, place, 3, (WIDTH_INCHES, height))]


def _in_words(claim: Claim, fidelity: str, verdict: Verdict) -> str:
    share, published = verdict.share, verdict.published.share
    effect = f", {share.estimate:+.1%}" if share else ""
    if share and share.known:
        effect += f" ({share.low:+.1%} to {share.high:+.1%})"
    printed = f", published {published:+.1%}" if published is not None else ""
    return f"{claim.title} ({fidelity}): {verdict.word}{effect}{printed}"


def _put(marks: Sequence[Mark], axis: str, axes: Axes) -> None:
    logarithmic(axes, "× {x:g}")
    axes.axvline(1.0, color=GREY, linewidth=1.0, zorder=1)
    published = {at: share for at, (*_, one) in enumerate(marks) if (share := one.published.share) is not None}
    drawn = [*NEAR, *_factors(published.values())]
    if published:
        hollow = {"color": "#d55e00", "mfc": "none", "ms": 9, "mew": 1.6}
        axes.plot(_factors(published.values()), [*published], "D", label="published", **hollow)  # type: ignore[arg-type]
    for name, (colour, shape) in STYLES.items():
        shares = {at: one.share for at, (_, fidelity, one) in enumerate(marks) if fidelity == name and one.share}
        if shares:
            middle, low, high = (
                np.array(_factors(getattr(share, end) for share in shares.values()))
                for end in ("estimate", "low", "high")
            )
            reach = np.nan_to_num([middle - low, high - middle])
            drawn += [*middle, *low, *high]
            label = f"{name}, 95 % interval"
            axes.errorbar(middle, [*shares], None, reach, shape, color=colour, elinewidth=2.2, zorder=4, label=label)
    # The limits that matplotlib finds for error bars on a logarithmic axis reach a hundred times too far.
    axes.set_xlim(0.9 * np.nanmin(drawn), 1.1 * np.nanmax(drawn))
    axes.set_ylim(len(marks) - 0.4, -0.6)
    # A claim with several rows is named once.
    titles = [claim.title for claim, *_ in marks]
    named = ["" if titles[at - 1 : at] == [title] else title for at, title in enumerate(titles)]
    lines = ["\n".join(textwrap.wrap(title, TITLE_LETTERS)[:2]) for title in named]
    axes.set_yticks(range(len(lines)), lines, fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(axis)
    for at, (*_, verdict) in enumerate(marks):
        text = f"{SIGNS[verdict.outcome]} {verdict.word}"
        axes.text(1.02, at, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)


def _factors(shares: Iterable[float]) -> list[float]:
    """Return changes as factors that can be drawn; NaN where one is unknown."""
    return [math.nan if math.isnan(share) else min(max(1 + share, LEAST), MOST) for share in shares]
