"""Draw figures as SVG and PNG in one style, with a text for readers who do not see them."""

from __future__ import annotations

import io
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from looplab.report.cell import quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.samples import MeasuredRuns
    from looplab.report.statistics import Floats, Interval

SIZE_INCHES = (4.7, 3.3)
# A fixed place: matplotlib's own layout takes as long as the drawing.
PLACE = (0.14, 0.145, 0.835, 0.75)
PNG_DPI = 160
# The number of the figure of all claims, the first on the page.
OVERVIEW = "claims"
# Colour (Okabe and Ito, the two light ones darkened to 3:1 on white), line and mark: the page is read in grey, too.
STYLES = (
    ("#0072b2", "-", "o"),
    ("#000000", "--", "s"),
    ("#d55e00", "-", "^"),
    ("#cc79a7", "-.", "D"),
    ("#009e73", "--", "v"),
    ("#2b8cc4", ":", "P"),
    ("#a87200", ":", "X"),
)
GREY = "#777777"
CURVE_POINTS = 240
# The band holds the repetitions' own curves, except their highest and lowest 5 %.
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class PlotPoint:
    """One mark: x, and y with how far its interval reaches below and above."""

    x: float
    y: float
    below: float = 0.0
    above: float = 0.0


def point(x: float, value: Interval, unit: float = 1.0) -> PlotPoint:
    """Return the mark of an estimate in `unit`; no bar is drawn where an end is unknown or infinite."""
    y, low, high = value.estimate / unit, value.low / unit, value.high / unit
    return PlotPoint(x, y, *((end if math.isfinite(end) else 0.0) for end in (y - low, high - y)))


@dataclass(frozen=True)
class Plot:
    """A figure: `put` draws it on the axes; grid and legend of all labelled series are added.

    `figure` is its number in the publication. `place` is that of the axes in the figure: left, bottom, width, height.
    """

    name: str
    figure: str
    fidelity: str
    caption: str
    alternative: str
    put: Callable[[Axes], None]
    place: tuple[float, float, float, float] = PLACE
    legend_columns: int = 4
    size_inches: tuple[float, float] = SIZE_INCHES

    @classmethod
    def of(
        cls, run: MeasuredRuns, figure: str, caption: str, text: str, put: Callable[[Axes], None], **more: Any
    ) -> Self:
        """Return the plot of a figure of the publication from a run; `text` are its numbers in words."""
        fidelity = run.run.fidelity
        name = f"{run.run.experiment.replace('-', '_')}_figure_{figure}_{fidelity}"
        return cls(name, figure, fidelity, caption, f"{caption} {text}", put, **more)

    @cached_property
    def images(self) -> Mapping[str, bytes]:
        """Draw it; return the image by the ending of its file."""
        # The image of the report holds the list of its fonts: matplotlib takes seconds to make one, and asks for a
        # place to write beside it, of which each container has a new one.
        if fonts := os.environ.get("LAB_FONTS"):
            shutil.copytree(fonts, os.environ["MPLCONFIGDIR"], dirs_exist_ok=True)
        # Imported late: it takes a second, and a page without figures does without.
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "looplab", "font.size": 9.5}):
            canvas = Canvas(figsize=self.size_inches)
            self._fill(canvas.add_axes(self.place))
            svg, png = io.BytesIO(), io.BytesIO()
            canvas.savefig(svg, format="svg", metadata={"Date": None})
            canvas.savefig(png, format="png", dpi=PNG_DPI, pil_kwargs={"compress_level": 4})
        return {"svg": svg.getvalue(), "png": png.getvalue()}

    def _fill(self, axes: Axes) -> None:
        self.put(axes)
        axes.grid(alpha=0.35, linewidth=0.6)
        # Above the axes, where no curve can be.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.1, 1.0),
            ncols=self.legend_columns,
            fontsize=8.5,
            frameon=False,
            columnspacing=1.0,
            handlelength=2.4,
            borderaxespad=0.2,
        )


@dataclass(frozen=True)
class LinePlot:
    """What most plots draw: named series of points over x, with their intervals.

    `levels` are horizontal lines, `slopes` named lines through the origin, `best` vertical lines by series. With
    `percent`, y is a share.
    """

    series: Mapping[str, Sequence[PlotPoint]]
    x_label: str
    y_label: str
    levels: tuple[float, ...] = ()
    slopes: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    percent: bool = False

    def plot(self, run: MeasuredRuns, figure: str, caption: str, **more: Any) -> list[Plot]:
        """Return the plot of a figure of the publication from a run, none without a point."""
        return [Plot.of(run, figure, caption, str(self), self.put, **more)] if any(self.series.values()) else []

    def __str__(self) -> str:
        """The numbers of the figure, for readers who do not see it."""
        form = ".1%" if self.percent else ".4g"
        each = [
            f"{name}: " + ", ".join(f"{p.y:{form}} at {p.x:.4g}" for p in points)
            for name, points in self.series.items()
        ]
        best = "".join(f" Best of {name}: {x:g}." for name, x in self.best.items())
        return f"{self.y_label} over {self.x_label}. {'; '.join(each)}.{best}"

    def put(self, axes: Axes) -> None:
        """Draw it."""
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        right = max(p.x for points in self.series.values() for p in points)
        for name, factor in self.slopes.items():
            axes.plot([0, right], [0, factor * right], color=GREY, linewidth=0.8)
            axes.annotate(name, (right, factor * right), fontsize=7.5, color="#555555", ha="right", va="bottom")
        for level in self.levels:
            axes.axhline(level, color=GREY, linewidth=0.9)
        for at, (name, points) in enumerate(self.series.items()):
            colour, line, mark = STYLES[at % len(STYLES)]
            if name in self.best:
                axes.axvline(self.best[name], color=colour, linestyle=":", linewidth=1.1)
            # Every second series is larger and hollow: both are seen where two agree.
            hollow = at % 2 == 1
            axes.errorbar(
                [p.x for p in points],
                [p.y for p in points],
                yerr=[[p.below for p in points], [p.above for p in points]],
                color=colour,
                linestyle=line,
                linewidth=1.5,
                marker=mark,
                markersize=7 if hollow else 4.5,
                markerfacecolor="none" if hollow else colour,
                capsize=2.5,
                label=name,
            )
        axes.set_xlim(0, right * 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if self.percent:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            # With room for the mark of the highest point.
            tops = [*self.levels, *(right * factor for factor in self.slopes.values())]
            tops += [p.y + p.above for points in self.series.values() for p in points]
            axes.set_ylim(0, 1.06 * max(tops) or 1.0)
        if len(self.levels) > 1:
            axes.set_yticks(self.levels)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)


@dataclass(frozen=True)
class Curve:
    """A cumulative distribution of latencies in us, each repetition's sorted; a lost message's is infinite: so it ends
    below 1."""

    name: str
    by_repetition: Sequence[Floats]

    @cached_property
    def values_us(self) -> Floats:
        """The latencies of all messages that were sent, sorted."""
        return np.sort(np.concatenate(self.by_repetition))

    @cached_property
    def answered_us(self) -> Floats:
        answered_us: Floats = self.values_us[np.isfinite(self.values_us)]
        return answered_us

    def below(self, share: float) -> str:
        """Return a quantile of all in words."""
        value_us = quantile(self.values_us, share)
        return f"below {value_us / 1000:.3g} ms" if np.isfinite(value_us) else "not all answered"

    def put(self, axes: Axes, style: tuple[str, str, str]) -> None:
        """Draw it, with a band for the repetitions."""
        colour, line, mark = style
        # Denser towards the tail, to the very maximum.
        tail = 1 - np.geomspace(1 / self.answered_us.size, 0.05, 60)
        x = np.unique(np.quantile(self.answered_us, [*np.linspace(0, 1, CURVE_POINTS), *tail]))
        each = [np.searchsorted(own, x, side="right") / own.size for own in self.by_repetition]
        low, high = np.quantile(each, BAND, axis=0)
        # The band of one repetition has no height.
        axes.fill_between(x / 1000, low, high, step="post", color=colour, alpha=0.16, linewidth=0)
        heights = np.searchsorted(self.values_us, x, side="right") / self.values_us.size
        often = {"marker": mark, "markevery": max(1, x.size // 7), "markersize": 4.5}
        axes.step(x / 1000, heights, line, where="post", color=colour, linewidth=1.6, label=self.name, **often)


def logarithmic(axes: Axes, form: str = "{x:g}") -> None:
    """Make the x axis logarithmic, with a tick at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter(form))


def shares(axes: Axes, metric: str, counted: str, *, log: bool) -> None:
    """Make `axes` those of a cumulative distribution of `metric` in ms; `counted` names what the shares are of."""
    from matplotlib.ticker import PercentFormatter

    if log:
        logarithmic(axes)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(f"{metric} in ms{' (logarithmic)' if log else ''}")
    axes.set_ylabel(counted)
