"""Draw figures as SVG and PNG in one style, with a text for readers who do not see them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


class Sketch(Protocol):
    """The numbers of a figure: cheap to send to another process, which draws it."""

    def draw(self) -> Drawing:
        """Return the figure."""


def drawn(
    name: str,
    figure: str,
    fidelity: str,
    caption: str,
    alternative: str,
    draw: Callable[[Axes], None],
    *,
    place: tuple[float, float, float, float] = PLACE,
    legend_columns: int = 4,
) -> Drawing:
    """Return the figure that `draw` puts on the axes; the grid and the legend of all labelled series are added.

    `place` is that of the axes in the figure: left, bottom, width, height.
    """

    def put(axes: Axes) -> None:
        draw(axes)
        axes.grid(alpha=0.35, linewidth=0.6)
        # Above the axes, where no curve can be.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.1, 1.0),
            ncols=legend_columns,
            fontsize=8.5,
            frameon=False,
            columnspacing=1.0,
            handlelength=2.4,
            borderaxespad=0.2,
        )

    return Drawing(name, figure, fidelity, caption, alternative, *images(put, SIZE_INCHES, place))


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
