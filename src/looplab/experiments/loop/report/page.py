"""One self-contained HTML page: nothing is fetched to read it, nothing but text and images is in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from looplab import __version__
from looplab.experiments.loop.report import notes, published
from looplab.experiments.loop.report.analysis import Analysis
from looplab.experiments.loop.report.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED
from looplab.experiments.loop.report.curves import Panel
from looplab.report.statistics import Interval

# A sign beside each word: in grey print, colours say nothing.
SIGNS = {REPRODUCED: "✓", NOT_REPRODUCED: "✗", UNDECIDED: "?"}


def page(analysis: Analysis, drawn: Sequence[Panel], made: datetime | None = None) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, Path(__file__).parents[3] / "report"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(ms=show_ms, percent=show_percent, signed_ms=show_signed_ms, bounds=show_bounds)
    figures = [(figure, [panel for panel in drawn if panel.figure == figure.number]) for figure in published.figures()]
    return environment.get_template("page.html.j2").render(
        analysis=analysis,
        figures=figures,
        signs=SIGNS,
        titles=published.titles(),
        made=made or datetime.now(UTC),
        version=__version__,
        emulation=notes.EMULATION,
        method=notes.METHOD,
        data_uri=data_uri,
        counts={word: _count(analysis, word) for word in SIGNS},
    )


def data_uri(panel: Panel) -> Markup:
    """The figure inside the page itself."""
    return Markup("data:image/svg+xml;base64," + base64.b64encode(panel.svg).decode("ascii"))


def show_ms(value_us: float | None) -> str:
    """Milliseconds with as many decimals as tell something; a dash where there is none."""
    if value_us is None or value_us != value_us:
        return "–"
    if math.isinf(value_us):
        return "∞"
    value = value_us / 1000
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def show_signed_ms(value_us: float | None) -> str:
    text = show_ms(value_us)
    return text if text.startswith("–") else ("+" if (value_us or 0) >= 0 else "−") + text.lstrip("-")


def show_percent(share: float | None) -> str:
    """A signed percentage; from three times on, a factor."""
    if share is None or share != share:
        return "–"
    if share >= 2:
        return f"× {1 + share:.3g}" if share < 999 else f"× {1 + share:.0f}"
    return f"{share:+.0%}".replace("-", "−")


def show_bounds(interval: Interval | None) -> str:
    """The interval's ends in milliseconds, "" where it is not known."""
    return f"{show_ms(interval.low)} … {show_ms(interval.high)}" if interval is not None and interval.known else ""


def _count(analysis: Analysis, word: str) -> int:
    return sum(verdict.outcome == word for _, verdicts in analysis.verdicts for verdict in verdicts.values())
