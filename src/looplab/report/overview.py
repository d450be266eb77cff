"""Draw all claims in one figure: effect and interval, the published mark, the verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from looplab.report.drawing import GREY, OVERVIEW, Drawing, images
from looplab.report.verdicts import NO_VERDICT, SIGNS, Claim, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.verdicts import Verdicts

WIDTH_INCHES, EDGES_INCHES, ROW_INCHES = 9.6, 1.0, 0.37
# Of the figure's width: claims on the left, verdicts on the right.
LEFT, RIGHT = 0.36, 0.79
TITLE_LETTERS = 52
# Beyond these factors a mark is drawn at the edge, as an arrow; within NEAR the axis is never narrower.
LEAST, MOST = 0.1, 16.0
NEAR = (0.8, 1.6)
# Factors to label: an axis whose end is more than LONG times its beginning has room for fewer.
LONG = 4.0
TICKS, FEWER_TICKS = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0), (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
# Colour and mark of each fidelity: apart in grey print, too.
STYLES = {"printed": ("#009e73", "^"), "thesis": ("#0072b2", "o"), "corrected": ("#000000", "s")}
PUBLISHED = {"marker": "D", "ls": "", "ms": 9, "mfc": "none", "mec": "#d55e00", "mew": 1.6}
SAME = "no change"
CAPTION = (
    "Each claim: the measured change with its 95 % interval, the published one, the verdict. A claim on counts of "
    "messages has no change to draw."
)


# A claim with its verdict at one fidelity.
Mark = tuple[Claim, str, Verdict]


def overview(verdicts: Verdicts, axis: str) -> list[Overview]:
    """Return the figure of the claims with a figure or a verdict; none without a figure."""
    marks = [
        (claim, fidelity, verdict)
        for claim, answers in verdicts
        for fidelity, verdict in answers.items()
        # A published mark alone compares nothing; a claim on counts has its verdict.
        if verdict.run and (verdict.share or (verdict.published_share is None and verdict.outcome != NO_VERDICT))
    ]
    return [Overview(marks, axis)] if any(verdict.share for *_, verdict in marks) else []


def _shares(verdict: Verdict) -> list[float]:
    """Return all changes that are drawn of a verdict."""
    measured = (verdict.share.estimate, verdict.share.low, verdict.share.high) if verdict.share else ()
    return [share for share in (*measured, verdict.published_share) if share is not None and not math.isnan(share)]


def _in_words(claim: Claim, fidelity: str, verdict: Verdict) -> str:
    share, published = verdict.share, verdict.published_share
    effect = f", {share.estimate:+.1%}" if share else ""
    if share and share.known:
        effect += f" ({share.low:+.1%} to {share.high:+.1%})"
    printed = f", published {published:+.1%}" if published is not None else ""
    return f"{claim.title} ({fidelity}): {verdict.word}{effect}{printed}"


@dataclass(frozen=True)
class Overview:
    """The figure to be drawn; `axis` names what changes, e.g. "O or response, after over before"."""

    marks: Sequence[Mark]
    axis: str

    def draw(self) -> Drawing:
        height = EDGES_INCHES + ROW_INCHES * len(self.marks)
        place = (LEFT, 0.62 / height, RIGHT - LEFT, 1 - EDGES_INCHES / height)
        made = images(self._put, (WIDTH_INCHES, height), place)
        words = "; ".join(_in_words(*mark) for mark in self.marks)
        return Drawing("claims", OVERVIEW, "", CAPTION, f"All claims. {words}.", *made)

    def _put(self, axes: Axes) -> None:
        factors = [_inside(1 + share) for *_, verdict in self.marks for share in _shares(verdict)]
        low, high = min([NEAR[0], *factors]) * 0.95, max([NEAR[1], *factors]) * 1.05
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(len(self.marks) - 0.4, -0.6)
        axes.axvline(1.0, color=GREY, linewidth=1.0, zorder=1)
        for at, (_claim, fidelity, verdict) in enumerate(self.marks):
            _row(axes, at, fidelity, verdict)
        shown = [tick for tick in (FEWER_TICKS if high > LONG * low else TICKS) if low <= tick <= high]
        axes.set_xticks(shown, [_label(factor) for factor in shown])
        axes.set_xticks([], minor=True)
        # A claim with several rows is named once.
        titles = [claim.title for claim, *_ in self.marks]
        named = ["" if titles[at - 1 : at] == [title] else title for at, title in enumerate(titles)]
        lines = ["\n".join(textwrap.wrap(title, TITLE_LETTERS)[:2]) for title in named]
        axes.set_yticks(range(len(lines)), lines, fontsize=8.5)
        axes.set_xlabel(self.axis)
        axes.grid(axis="x", alpha=0.35, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        for name, (colour, shape) in STYLES.items():
            if any(fidelity == name and verdict.share for _, fidelity, verdict in self.marks):
                axes.plot([], [], marker=shape, color=colour, linewidth=2.2, label=f"{name}, 95 % interval")
        if any(verdict.published_share is not None for *_, verdict in self.marks):
            axes.plot([], [], label="published", **PUBLISHED)  # type: ignore[arg-type]
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, fontsize=8.5, frameon=False)


def _row(axes: Axes, at: int, fidelity: str, verdict: Verdict) -> None:
    colour, shape = STYLES.get(fidelity, STYLES["thesis"])
    if verdict.published_share is not None:
        axes.plot(_inside(1 + verdict.published_share), at, zorder=2, **PUBLISHED)  # type: ignore[arg-type]
    if share := verdict.share:
        if share.known:
            axes.plot(
                [_inside(1 + share.low), _inside(1 + share.high)], [at, at], color=colour, linewidth=2.2, zorder=3
            )
        value = 1 + share.estimate
        beyond = ">" if value > MOST else "<" if value < LEAST else shape
        axes.plot(_inside(value), at, beyond, ms=6.5, color=colour, zorder=4, clip_on=False)
    place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False}
    axes.annotate(f"{SIGNS[verdict.outcome]} {verdict.word}", (1.02, at), **place)  # type: ignore[arg-type]


def _label(factor: float) -> str:
    if factor == 1:
        return SAME
    return f"× {factor:g}" if factor >= 2 else f"{factor - 1:+.0%}".replace("-", "−")


def _inside(factor: float) -> float:
    return LEAST if not math.isfinite(factor) or factor < LEAST else min(factor, MOST)
