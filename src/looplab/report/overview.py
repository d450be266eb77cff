"""Draw all claims in one figure: effect and interval, the published mark, the verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from looplab.report.drawing import GREY, OVERVIEW, Drawing, images
from looplab.report.verdicts import NO_VERDICT, SIGNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.statistics import Interval
    from looplab.report.verdicts import Verdicts

WIDTH_INCHES, EDGES_INCHES, ROW_INCHES = 9.6, 1.0, 0.37
# Of the figure's width: claims on the left, verdicts on the right.
LEFT, RIGHT = 0.36, 0.79
TITLE_LETTERS = 52
# Beyond these factors a mark is drawn at the edge, as an arrow; within NEAR the axis is never narrower.
LEAST, MOST = 0.1, 16.0
NEAR = (0.8, 1.6)
# Factors to label, the most important first: a label that has no room is left out.
TICKS = (1.0, 2.0, 0.5, 5.0, 0.25, 0.1, 10.0, 3.0, 1.5, 0.75, 16.0, 1.2, 0.8, 1.4, 0.6, 0.9, 0.7, 1.6)
LABEL_INCHES = 0.85
# Colour and mark of each fidelity: apart in grey print, too.
STYLES = {"printed": ("#009e73", "^"), "thesis": ("#0072b2", "o"), "corrected": ("#000000", "s")}
PUBLISHED = {"marker": "D", "ls": "", "ms": 9, "mfc": "none", "mec": "#d55e00", "mew": 1.6}
SAME = "no change"
CAPTION = (
    "Each claim: the measured change with its 95 % interval, the published one, the verdict. A claim on counts of "
    "messages has no change to draw."
)


@dataclass(frozen=True)
class ClaimMark:
    """One claim at one fidelity: `share` is the change (None: a matter of counts), `published` the printed one."""

    title: str
    fidelity: str
    outcome: str
    share: Interval | None
    published: float | None

    @property
    def shares(self) -> list[float]:
        """All that is drawn of it."""
        measured = (self.share.estimate, self.share.low, self.share.high) if self.share else ()
        return [share for share in (*measured, self.published) if share is not None and not math.isnan(share)]

    def __str__(self) -> str:
        effect = f", {self.share.estimate:+.1%}" if self.share else ""
        if self.share and self.share.known:
            effect += f" ({self.share.low:+.1%} to {self.share.high:+.1%})"
        printed = f", published {self.published:+.1%}" if self.published is not None else ""
        return f"{self.title} ({self.fidelity}): {self.outcome}{effect}{printed}"


def overview(verdicts: Verdicts, axis: str) -> list[Overview]:
    """Return the figure of the claims with a figure or a verdict; none without a figure."""
    marks = [
        ClaimMark(claim.title, fidelity, verdict.word, verdict.share, verdict.published_share)
        for claim, answers in verdicts
        for fidelity, verdict in answers.items()
        # A published mark alone compares nothing; a claim on counts has its verdict.
        if verdict.run and (verdict.share or (verdict.published_share is None and verdict.outcome != NO_VERDICT))
    ]
    return [Overview(marks, axis)] if any(mark.share for mark in marks) else []


@dataclass(frozen=True)
class Overview:
    """The figure to be drawn; `axis` names what changes, e.g. "O or response, after over before"."""

    marks: Sequence[ClaimMark]
    axis: str

    def draw(self) -> Drawing:
        height = EDGES_INCHES + ROW_INCHES * len(self.marks)
        place = (LEFT, 0.62 / height, RIGHT - LEFT, 1 - EDGES_INCHES / height)
        made = images(self._put, (WIDTH_INCHES, height), place)
        return Drawing("claims", OVERVIEW, "", CAPTION, f"All claims. {'; '.join(map(str, self.marks))}.", *made)

    def _put(self, axes: Axes) -> None:
        factors = [_inside(1 + share) for mark in self.marks for share in mark.shares]
        low, high = min([NEAR[0], *factors]) * 0.95, max([NEAR[1], *factors]) * 1.05
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(len(self.marks) - 0.4, -0.6)
        axes.axvline(1.0, color=GREY, linewidth=1.0, zorder=1)
        for at, mark in enumerate(self.marks):
            _row(axes, at, mark)
        shown = ticks(low, high)
        axes.set_xticks(shown, [_label(factor) for factor in shown])
        axes.set_xticks([], minor=True)
        # A claim with several rows is named once.
        titles = [mark.title for mark in self.marks]
        named = ["" if titles[at - 1 : at] == [title] else title for at, title in enumerate(titles)]
        lines = ["\n".join(textwrap.wrap(title, TITLE_LETTERS)[:2]) for title in named]
        axes.set_yticks(range(len(lines)), lines, fontsize=8.5)
        axes.set_xlabel(self.axis)
        axes.grid(axis="x", alpha=0.35, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        for name, (colour, shape) in STYLES.items():
            if any(mark.fidelity == name and mark.share for mark in self.marks):
                axes.plot([], [], marker=shape, color=colour, linewidth=2.2, label=f"{name}, 95 % interval")
        if any(mark.published is not None for mark in self.marks):
            axes.plot([], [], label="published", **PUBLISHED)  # type: ignore[arg-type]
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, fontsize=8.5, frameon=False)


def _row(axes: Axes, at: int, mark: ClaimMark) -> None:
    colour, shape = STYLES.get(mark.fidelity, STYLES["thesis"])
    if mark.published is not None:
        axes.plot(_inside(1 + mark.published), at, zorder=2, **PUBLISHED)  # type: ignore[arg-type]
    if mark.share is not None:
        if mark.share.known:
            ends = [_inside(1 + end) for end in (mark.share.low, mark.share.high)]
            axes.plot(ends, [at, at], color=colour, linewidth=2.2, zorder=3)
        value = 1 + mark.share.estimate
        beyond = ">" if value > MOST else "<" if value < LEAST else shape
        axes.plot(_inside(value), at, beyond, ms=6.5, color=colour, zorder=4, clip_on=False)
    text = f"{SIGNS[mark.outcome.partition(':')[0]]} {mark.outcome}"
    place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False}
    axes.annotate(text, (1.02, at), **place)  # type: ignore[arg-type]


def ticks(low: float, high: float) -> list[float]:
    """Return the factors of an axis from `low` to `high` whose labels do not touch."""
    inches = WIDTH_INCHES * (RIGHT - LEFT) / math.log(high / low)
    kept: list[float] = []
    for tick in TICKS:
        if low <= tick <= high and all(abs(math.log(tick / one)) * inches > LABEL_INCHES for one in kept):
            kept.append(tick)
    return sorted(kept)


def _label(factor: float) -> str:
    if factor == 1:
        return SAME
    return f"× {factor:g}" if factor >= 2 else f"{factor - 1:+.0%}".replace("-", "−")


def _inside(factor: float) -> float:
    return LEAST if not math.isfinite(factor) or factor < LEAST else min(factor, MOST)
