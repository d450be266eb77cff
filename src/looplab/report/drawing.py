"""Draw figures as SVG and PNG in one style, with a text for readers who do not see them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from looplab.report.statistics import Interval

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


@dataclass(frozen=True)
class Drawing:
    """One drawn figure; `figure` is its number in the publication."""

    name: str
    figure: str
    fidelity: str
    caption: str
    alternative: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Point:
    """One mark: x, and y with how far its interval reaches below and above."""

    x: float
    y: float
    below: float = 0.0
    above: float = 0.0


def point(x: float, value: Interval, unit: float = 1.0) -> Point:
    """Return the mark of an estimate in `unit`; no bar is drawn where an end is unknown or infinite."""
    y, low, high = value.estimate / unit, value.low / unit, value.high / unit
    return Point(x, y, *((end if math.isfinite(end) else 0.0) for end in (y - low, high - y)))


def errorbars(axes: Axes, name: str, held: Sequence[Point], style: tuple[str, str, str], **more: Any) -> None:
    """Draw a series of marks with their intervals, joined by a line; `style` is one of STYLES."""
    colour, line, mark = style
    axes.errorbar(
        [p.x for p in held],
        [p.y for p in held],
        yerr=[[p.below for p in held], [p.above for p in held]],
        **{"color": colour, "linestyle": line, "marker": mark, "capsize": 2.5, "label": name, **more},
    )


# A heading, a text and the figures below it.
Sections = Sequence[tuple[str, str, Sequence[Drawing]]]


def under(titles: Mapping[str, Sequence[str]], made: Sequence[Drawing]) -> Sections:
    """Return the drawings below each heading of `titles`, which holds the numbers of its figures."""
    found = [(title, "", [d for d in made if d.figure in numbers]) for title, numbers in titles.items()]
    return [section for section in found if section[2]] or [("", "", [])]


class Sketch(Protocol):
    """The numbers of a figure: cheap to send to another process, which draws it."""

    def draw(self) -> Drawing:
        """Return the figure."""


@dataclass(frozen=True)
class Plot:
    """A sketch of the usual size: `put` draws it on the axes; grid and legend of all labelled series are added.

    `put` is a function of a module, or a partial of one: it goes to another process. `place` is that of the axes in the
    figure: left, bottom, width, height.
    """

    name: str
    figure: str
    fidelity: str
    caption: str
    alternative: str
    put: Callable[[Axes], None]
    place: tuple[float, float, float, float] = PLACE
    legend_columns: int = 4

    def draw(self) -> Drawing:
        made = images(self._fill, SIZE_INCHES, self.place)
        return Drawing(self.name, self.figure, self.fidelity, self.caption, self.alternative, *made)

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


def shares(axes: Axes, metric: str, counted: str, *, logarithmic: bool) -> None:
    """Make `axes` those of a cumulative distribution of `metric` in ms; `counted` names what the shares are of."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(f"{metric} in ms{' (logarithmic)' if logarithmic else ''}")
    axes.set_ylabel(counted)


def images(
    draw: Callable[[Axes], None], size: tuple[float, float], place: tuple[float, float, float, float]
) -> tuple[bytes, bytes]:
    """Return what `draw` puts on axes at `place` of a figure of `size` inches, as SVG and PNG."""
    # Imported late: it takes a second, and sketches are made before.
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "looplab", "font.size": 9.5}):
        canvas = Canvas(figsize=size)
        draw(canvas.add_axes(place))
        svg, png = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=PNG_DPI, pil_kwargs={"compress_level": 4})
    return svg.getvalue(), png.getvalue()
