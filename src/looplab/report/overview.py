"""Draw all claims in one figure: effect and interval, the published mark, the verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from looplab.report.drawing import OVERVIEW, Drawing, images
from looplab.report.verdicts import NO_VERDICT, SIGNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.statistics import Interval
    from looplab.report.verdicts import Verdicts

WIDTH_INCHES, EDGES_INCHES = 9.6, 1.0
# A row whose claim takes one line, and all rows if one takes two.
ROW_INCHES, TALL_ROW_INCHES = 0.29, 0.37
# Of the figure's width: claims on the left, verdicts on the right.
LEFT, RIGHT = 0.36, 0.79
TITLE_LETTERS = 52
# Beyond these factors a mark is drawn at the edge, as an arrow; within these the axis is never narrower.
LEAST, MOST = 0.1, 16.0
NEAR = (0.8, 1.6)
# Factors to label, the most important first: a label that has no room is left out.
TICKS = (1.0, 2.0, 0.5, 5.0, 0.25, 0.1, 10.0, 3.0, 1.5, 0.75, 16.0, 1.2, 0.8, 1.4, 0.6, 0.9, 0.7, 1.6)
LETTER_INCHES = 0.09
# Colour and mark of each fidelity: apart in grey print, too.
STYLES = {"printed": ("#009e73", "^"), "thesis": ("#0072b2", "o"), "corrected": ("#000000", "s")}


@dataclass(frozen=True)
class Mark:
    """One claim at one fidelity: `share` is the change (None: a matter of counts), `published` the printed one."""

    title: str
    fidelity: str
    outcome: str
    share: Interval | None
    published: float | None


def overview(verdicts: Verdicts, axis: str, same: str = "no change") -> list[Overview]:
    """Return the figure of the claims with a figure or a verdict; none without a figure. `same` labels no change."""
    marks = [
        Mark(claim.title, fidelity, verdict.word, verdict.share, verdict.published_share)
        for claim, answers in verdicts
        for fidelity, verdict in answers.items()
        # A published mark alone compares nothing; a claim on counts has its verdict.
        if verdict.run and (verdict.share or (verdict.published_share is None and verdict.outcome != NO_VERDICT))
    ]
    return [Overview(marks, axis, same)] if any(mark.share for mark in marks) else []


@dataclass(frozen=True)
class Overview:
    """The figure to be drawn; `axis` names what changes, e.g. "O or response, after over before"."""

    marks: Sequence[Mark]
    axis: str
    same: str = "no change"

    def draw(self) -> Drawing:
        rows = list(reversed(self.marks))
        wrapped = any("\n" in _label(rows, at) for at in range(len(rows)))
        height = EDGES_INCHES + (TALL_ROW_INCHES if wrapped else ROW_INCHES) * len(rows)
        place = (LEFT, 0.62 / height, RIGHT - LEFT, 1 - EDGES_INCHES / height)
        made = images(lambda axes: self._put(axes, rows), (WIDTH_INCHES, height), place)
        return Drawing("claims", OVERVIEW, "", CAPTION, self._alternative(), *made)

    def _put(self, axes: Axes, rows: Sequence[Mark]) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        low, high = _span(rows)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
        axes.axvline(1.0, color="#777777", linewidth=1.0, zorder=1)
        for at, mark in enumerate(rows):
            _row(axes, at, mark)
        axes.set_yticks(range(len(rows)), [_label(rows, at) for at in range(len(rows))], fontsize=8.5)
        axes.xaxis.set_major_locator(FixedLocator(ticks(low, high, self.same)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda factor, _at: _tick(factor, self.same)))
        axes.set_xlabel(self.axis)
        axes.grid(axis="x", alpha=0.35, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        _legend(axes, rows)

    def _alternative(self) -> str:
        texts = []
        for mark in self.marks:
            effect = f", {mark.share.estimate:+.1%}" if mark.share else ""
            if mark.share and mark.share.known:
                effect += f" ({mark.share.low:+.1%} to {mark.share.high:+.1%})"
            printed = f", published {mark.published:+.1%}" if mark.published is not None else ""
            texts.append(f"{mark.title} ({mark.fidelity}): {mark.outcome}{effect}{printed}")
        return f"All claims. {'; '.join(texts)}."


CAPTION = (
    "Each claim: the measured change with its 95 % interval, the published one, the verdict. A claim on counts of "
    "messages has no change to draw."
)


def _row(axes: Axes, at: int, mark: Mark) -> None:
    colour, shape = STYLES.get(mark.fidelity, STYLES["thesis"])
    if mark.published is not None:
        axes.plot(_inside(1 + mark.published), at, "D", ms=9, mfc="none", mec="#d55e00", mew=1.6, zorder=2)
    if mark.share is not None:
        share = mark.share
        if share.known:
            axes.plot(
                [_inside(1 + share.low), _inside(1 + share.high)], [at, at], color=colour, linewidth=2.2, zorder=3
            )
        value = 1 + share.estimate
        beyond = ">" if value > MOST else "<" if value < LEAST else shape
        axes.plot(_inside(value), at, beyond, ms=6.5, color=colour, zorder=4, clip_on=False)
    text = f"{SIGNS[mark.outcome.partition(':')[0]]} {mark.outcome}"
    axes.annotate(
        text, (1.02, at), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, annotation_clip=False
    )


def _label(rows: Sequence[Mark], at: int) -> str:
    """Return the claim, once where it has two rows; rows go upwards."""
    if at + 1 < len(rows) and rows[at + 1].title == rows[at].title:
        return ""
    return "\n".join(textwrap.wrap(rows[at].title, TITLE_LETTERS)[:2])


def _legend(axes: Axes, rows: Sequence[Mark]) -> None:
    from matplotlib.lines import Line2D

    shown = [
        Line2D([], [], color=colour, marker=mark, linewidth=2.2, label=f"{name}, 95 % interval")
        for name, (colour, mark) in STYLES.items()
        if any(row.fidelity == name and row.share for row in rows)
    ]
    if any(row.published is not None for row in rows):
        shown.append(Line2D([], [], marker="D", ls="", ms=8, mfc="none", mec="#d55e00", mew=1.6, label="published"))
    if shown:
        axes.legend(handles=shown, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, fontsize=8.5, frameon=False)


def _span(rows: Sequence[Mark]) -> tuple[float, float]:
    """Return the ends of the axis: every mark and interval, as far as there is room."""
    shares = [row.published for row in rows if row.published is not None]
    shares += [share for row in rows if row.share for share in (row.share.estimate, row.share.low, row.share.high)]
    factors = [_inside(1 + share) for share in shares if not math.isnan(share)]
    return min([NEAR[0], *factors]) * 0.95, max([NEAR[1], *factors]) * 1.05


def ticks(low: float, high: float, same: str) -> list[float]:
    """Return the factors of an axis from `low` to `high` whose labels do not touch."""
    inches = WIDTH_INCHES * (RIGHT - LEFT) / math.log(high / low)
    kept: list[float] = []
    for tick in TICKS:
        apart = (
            abs(math.log(tick / other)) * inches
            - LETTER_INCHES * (len(_tick(tick, same)) + len(_tick(other, same)) + 1) / 2
            for other in kept
        )
        if low <= tick <= high and all(inch > 0 for inch in apart):
            kept.append(tick)
    return sorted(kept)


def _tick(factor: float, same: str) -> str:
    if factor == 1:
        return same
    return f"× {factor:g}" if factor >= 2 else f"{factor - 1:+.0%}".replace("-", "−")


def _inside(factor: float) -> float:
    return LEAST if not math.isfinite(factor) or factor < LEAST else min(factor, MOST)
