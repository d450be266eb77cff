"""One self-contained HTML page: nothing is fetched to read it, nothing but text and images is in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from looplab import __version__
from looplab.report.verdicts import SIGNS
from looplab.run import quiet

if TYPE_CHECKING:
    from looplab.report.drawing import Plot


def page(template: Path, context: Mapping[str, Any]) -> str:
    """Return the page that `template` makes of `context`; it extends frame.html.j2 of this folder."""
    compiled = _environment(template.parent).get_template(template.name)
    made = datetime.now(UTC)
    return compiled.render(**context, signs=SIGNS, data_uri=_data_uri, made=made, version=__version__)


@cache
def _environment(folder: Path) -> Environment:
    """Return what compiles the templates of `folder`, each once: that takes longer than a page."""
    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(ms=show_ms, show=show, percent=show_percent, signed=show_signed, stalls=quiet.facts)
    return environment


def show_ms(value_us: float | None) -> str:
    """Return milliseconds with as many decimals as have a meaning; a dash for None and NaN."""
    if value_us is None or value_us != value_us:
        return "–"
    if math.isinf(value_us):
        return "∞"
    value = value_us / 1000
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def show_signed(value: float | None, unit: str = "us") -> str:
    text = "–" if value is None else show(value, unit)
    return text if text.startswith("–") else ("+" if (value or 0) >= 0 else "−") + text.lstrip("-")


def show(value: float, unit: str) -> str:
    """Return a figure for a table; latencies are in us, shares ("%") and changes are parts of 1.

    A dash for NaN.
    """
    if unit == "us" or not math.isfinite(value):
        return show_ms(value)
    if unit == "%":
        return f"{value:.2%}"
    if unit == "change":
        return f"{round(value, 3) + 0.0:+.1%}".replace("-", "−")
    rounded = unit in ("bytes", "messages", "devices", "Hz") or abs(value) >= 1000
    return f"{value:,.0f}" if rounded else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def show_percent(share: float | None) -> str:
    """Return a signed percentage; a factor from three times on."""
    if share is None or share != share:
        return "–"
    if share >= 2:
        return f"× {1 + share:.3g}" if share < 999 else f"× {1 + share:.0f}"
    return f"{share:+.0%}".replace("-", "−")


def _data_uri(plot: Plot) -> Markup:
    return Markup("data:image/svg+xml;base64," + base64.b64encode(plot.images["svg"]).decode("ascii"))
